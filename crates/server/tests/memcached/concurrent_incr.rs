//! Counting from many connections.

use crate::in_process::InProcess;

#[test]
fn concurrent_incr_from_eight_connections_adds_up() {
    let server = InProcess::open();
    server.ask("set n 0 0 1\r\n0\r\n");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let answers = server.ask(&"incr n 3\r\n".repeat(200));
                assert_eq!(answers.lines().count(), 200);
                let numbers: Vec<u64> = answers.lines().map(|l| l.parse().unwrap()).collect();
                assert!(numbers.is_sorted());
            });
        }
    });
    assert_eq!(server.ask("get n\r\n"), "VALUE n 0 4\r\n4800\r\nEND\r\n");
}

#[test]
fn concurrent_adds_of_one_key_store_once() {
    let server = InProcess::open();
    for n in 0..50 {
        let stored: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| server.ask(&format!("add k{n} 0 0 1\r\nx\r\n"))))
                .collect();
            let answers = threads.into_iter().map(|t| t.join().unwrap());
            answers.filter(|a| a == "STORED\r\n").count()
        });
        assert_eq!(stored, 1);
    }
}
