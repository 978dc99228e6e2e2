//! kill -9 during writes: acknowledged values exist afterwards.

use porpoise_testkit::Porpoise;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Sets numbered keys until the server is gone; returns how many were
/// acknowledged.
fn write(address: SocketAddr, worker: usize) -> u32 {
    let Ok(stream) = TcpStream::connect(address) else {
        return 0;
    };
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    for n in 0..u32::MAX {
        let request = format!("set w{worker}:{n} 0 0 4\r\n{n:04}\r\n");
        let mut answer = String::new();
        let asked = stream.write_all(request.as_bytes());
        if asked.is_err() || answers.read_line(&mut answer).is_err() || answer != "STORED\r\n" {
            return n;
        }
    }
    0
}

#[test]
fn acknowledged_sets_outlive_kill_9() {
    let mut server = Porpoise::builder()
        .arg("--mysql-listen", "off")
        .arg("--durability", "sync")
        .start();
    for round in 0..3 {
        let address = server.memcached_addr;
        let workers: Vec<_> = (0..8)
            .map(|w| std::thread::spawn(move || write(address, round * 8 + w)))
            .collect();
        std::thread::sleep(Duration::from_millis(300));
        server.kill9();
        let counts: Vec<u32> = workers.into_iter().map(|w| w.join().unwrap()).collect();
        assert!(counts.iter().sum::<u32>() > 100, "{counts:?}");
        server.restart();
        for (w, count) in counts.iter().enumerate() {
            let worker = round * 8 + w;
            let gets: String = (0..*count).map(|n| format!(" w{worker}:{n}")).collect();
            if gets.is_empty() {
                continue;
            }
            let answer = server.memcached(&format!("get{gets}\r\n"));
            let found = answer.matches("VALUE ").count();
            assert_eq!(found, *count as usize, "worker {worker}");
        }
    }
}
