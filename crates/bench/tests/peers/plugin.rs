//! The InnoDB memcached plugin, of which there is only a fake here: a table
//! behind memcached's protocol, keys sent to it by a prefix like `@@kv.`, and
//! anything else refused.

use crate::support::{exercise_with, store};
use porpoise_bench::connect::{Access, Endpoint};
use porpoise_bench::experiments::store::Layout;
use porpoise_bench::url::Target;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Rows by the key without its prefix.
type Table = Arc<Mutex<HashMap<String, Vec<u8>>>>;

/// Answers one connection until it closes.
fn serve(stream: TcpStream, table: &Table) -> std::io::Result<()> {
    let mut out = stream.try_clone()?;
    let mut input = BufReader::new(stream);
    let mut line = String::new();
    while input.read_line(&mut line)? > 0 {
        let words: Vec<&str> = line.split_whitespace().collect();
        let row = words[1]
            .strip_prefix("@@kv.")
            .expect("the container's prefix");
        let answer = match words[0] {
            "get" => {
                let mut answer = Vec::new();
                if let Some(value) = table.lock().unwrap().get(row) {
                    write!(answer, "VALUE {} 0 {}\r\n", words[1], value.len())?;
                    answer.extend_from_slice(value);
                    answer.extend_from_slice(b"\r\n");
                }
                answer.extend_from_slice(b"END\r\n");
                answer
            }
            "set" | "add" => {
                let mut value = vec![0; words[4].parse::<usize>().unwrap() + 2];
                input.read_exact(&mut value)?;
                value.truncate(value.len() - 2);
                let mut table = table.lock().unwrap();
                if words[0] == "add" && table.contains_key(row) {
                    b"NOT_STORED\r\n".to_vec()
                } else {
                    table.insert(row.to_owned(), value);
                    b"STORED\r\n".to_vec()
                }
            }
            "delete" => match table.lock().unwrap().remove(row) {
                Some(_) => b"DELETED\r\n".to_vec(),
                None => b"NOT_FOUND\r\n".to_vec(),
            },
            other => panic!("{other} was asked"),
        };
        out.write_all(&answer)?;
        line.clear();
    }
    Ok(())
}

#[test]
fn every_operation_on_a_container() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let table = Table::default();
    let served = table.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let table = served.clone();
            std::thread::spawn(move || serve(stream, &table));
        }
    });
    let url = format!("memcached://127.0.0.1:{port}?name=plugin&prefix=@@kv.");
    let endpoint = Endpoint {
        target: Target::parse(&url).unwrap(),
        access: Access::Memcached,
    };
    let store = store(Layout::Items, &endpoint.target.prefix);
    // The fake is a part of this process, so it has no time of its own.
    exercise_with(&store, &endpoint, false);
    assert!(table.lock().unwrap().len() as u64 >= store.rows);
}
