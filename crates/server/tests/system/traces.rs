//! Traces by OTLP: a receiver gets a span for each traced statement, and no statement waits for the
//! receiver.

use crate::support::{Sql, server};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// A receiver of OTLP over HTTP with JSON.
struct Collector {
    url: String,
    bodies: Receiver<Value>,
}

/// Reads a request; returns its first line, its content type and its body.
fn read_request(stream: &TcpStream) -> (String, String, Vec<u8>) {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).unwrap();
    let (mut length, mut content_type) = (0, String::new());
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim().split_once(": ") else {
            break;
        };
        match name {
            "content-length" => length = value.parse().unwrap(),
            "content-type" => value.clone_into(&mut content_type),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    (first, content_type, body)
}

impl Collector {
    /// Starts a receiver that answers these statuses in turn, and 200 afterwards.
    fn start(statuses: &'static [u16]) -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, bodies) = channel();
        std::thread::spawn(move || {
            let mut statuses = statuses.iter();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let (first, content_type, body) = read_request(&stream);
                assert_eq!(first, "POST /v1/traces HTTP/1.1\r\n");
                assert_eq!(content_type, "application/json");
                let status = statuses.next().copied().unwrap_or(200);
                let reply = format!("HTTP/1.1 {status} x\r\ncontent-length: 2\r\n\r\n{{}}");
                stream.write_all(reply.as_bytes()).unwrap();
                if status == 200 && sender.send(serde_json::from_slice(&body).unwrap()).is_err() {
                    return;
                }
            }
        });
        Collector { url, bodies }
    }

    /// The next `count` spans.
    fn spans(&self, count: usize) -> Vec<Value> {
        let mut spans = Vec::new();
        while spans.len() < count {
            let body = self.bodies.recv_timeout(Duration::from_secs(20)).unwrap();
            let resource = &body["resourceSpans"][0];
            let service = &resource["resource"]["attributes"][0];
            assert_eq!(service["value"]["stringValue"], "porpoise");
            let found = resource["scopeSpans"][0]["spans"].as_array().unwrap();
            spans.extend(found.iter().cloned());
        }
        spans
    }
}

/// The value of an attribute, as text.
fn attribute(span: &Value, key: &str) -> Option<String> {
    let all = span["attributes"].as_array().unwrap();
    let found = all.iter().find(|attribute| attribute["key"] == key)?;
    let value = &found["value"];
    let text = value.get("stringValue").or(value.get("intValue"))?;
    Some(text.as_str().unwrap().to_owned())
}

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

fn comment(flags: &str) -> String {
    format!("/*action='show',traceparent='00-{TRACE}-b7ad6b7169203331-{flags}'*/")
}

#[test]
fn statements_of_a_sampled_trace_are_exported_without_their_values() {
    let collector = Collector::start(&[503]);
    let server = server().arg("--otlp-endpoint", &collector.url).start();
    let mut sql = Sql::connect(server.mysql_addr);
    sql.run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, name VARCHAR(20))");
    sql.run("USE d");
    let sampled = comment("01");
    sql.run(&format!("INSERT INTO t VALUES (1, 'secret') {sampled}"));
    sql.run(&format!("SELECT * FROM t WHERE id = 1 {}", comment("00")));
    sql.run("SELECT * FROM t WHERE id = 1");
    assert_eq!(
        sql.refused(&format!("SELECT * FROM gone {sampled}")).code,
        1146
    );
    let spans = collector.spans(2);
    let [insert, failed] = spans.as_slice() else {
        panic!("{spans:#?}");
    };
    assert_eq!(insert["traceId"], TRACE);
    assert_eq!(insert["parentSpanId"], "b7ad6b7169203331");
    assert_eq!(
        (&insert["name"], &insert["kind"]),
        (&"INSERT".into(), &2.into())
    );
    let text = attribute(insert, "db.query.text").unwrap();
    assert_eq!(text, "INSERT INTO `t` VALUES (...)");
    assert!(!insert.to_string().contains("secret"));
    assert_eq!(attribute(insert, "db.namespace").as_deref(), Some("d"));
    assert_eq!(
        attribute(insert, "porpoise.rows_affected").as_deref(),
        Some("1")
    );
    let time = |name: &str| insert[name].as_str().unwrap().parse::<u64>().unwrap();
    assert!(time("endTimeUnixNano") > time("startTimeUnixNano"));
    assert_ne!(attribute(insert, "porpoise.parse_ns").as_deref(), Some("0"));
    assert_ne!(insert["spanId"], failed["spanId"]);
    assert_eq!(
        attribute(failed, "db.response.status_code").as_deref(),
        Some("1146")
    );
    assert_eq!(failed["status"]["code"], 2);
    let page = server.http("/metrics").1;
    assert!(page.contains("porpoise_trace_spans_sent_total 2\n"));
    assert!(page.contains("porpoise_trace_spans_dropped_total 0\n"));
}

#[test]
fn a_share_of_the_statements_begins_traces() {
    let collector = Collector::start(&[]);
    let server = server()
        .arg("--otlp-endpoint", &collector.url)
        .arg("--otlp-sample", "1")
        .start();
    let mut sql = Sql::connect(server.mysql_addr);
    sql.run("SELECT 1");
    let spans = collector.spans(1);
    let select = spans.last().unwrap();
    assert!(select["parentSpanId"].is_null());
    assert_eq!(select["traceId"].as_str().unwrap().len(), 32);
}

#[test]
fn a_receiver_that_is_gone_delays_no_statement() {
    // Nothing listens there once the listener is dropped.
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let server = server()
        .arg("--otlp-endpoint", format!("http://{address}"))
        .arg("--otlp-sample", "1")
        .start();
    let mut sql = Sql::connect(server.mysql_addr);
    let begun = Instant::now();
    for _ in 0..100 {
        sql.run("DO 1");
    }
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let page = server.http("/metrics").1;
        let mut lines = page.lines();
        let dropped = lines.find(|line| line.starts_with("porpoise_trace_spans_dropped_total "));
        if dropped.unwrap() != "porpoise_trace_spans_dropped_total 0" {
            break;
        }
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(100));
    }
}
