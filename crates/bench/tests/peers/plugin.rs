//! The InnoDB memcached plugin, of which there is only a fake here: keys go to
//! a container by a prefix like `@@kv.`.

use crate::support::{run, store};
use porpoise_bench::connect::{Access, Endpoint};
use porpoise_bench::experiments::kv::Operation;
use porpoise_bench::experiments::store::Layout;
use porpoise_bench::load::Shape;
use porpoise_bench::url::Target;
use porpoise_bench::value;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

/// Answers gets of keys of the container, each with the value that fits.
fn serve(stream: TcpStream) {
    let mut out = stream.try_clone().unwrap();
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { return };
        let key = line.strip_prefix("get ").expect("a get");
        let number = key.strip_prefix("@@kv.").expect("the container's prefix");
        let mut text = Vec::new();
        value::write(&mut text, number.parse().unwrap(), 3, value::USUAL);
        let text = String::from_utf8(text).unwrap();
        let answer = format!("VALUE {key} 0 {}\r\n{text}\r\nEND\r\n", text.len());
        if out.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

#[test]
fn keys_carry_the_container() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    let url = format!("memcached://127.0.0.1:{port}?name=plugin&prefix=@@kv.");
    let endpoint = Endpoint {
        target: Target::parse(&url).unwrap(),
        access: Access::Memcached,
    };
    let store = store(Layout::Items, &endpoint.target.prefix);
    for shape in [Shape::ThreadEach, Shape::Multiplexed(1)] {
        let outcome = run(&store, &endpoint, Operation::Select, shape);
        assert_eq!(outcome.failure, None);
        assert!(outcome.requests > 0);
    }
}
