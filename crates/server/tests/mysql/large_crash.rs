//! Power failures during writes of large values by long data: acknowledged values are complete,
//! others complete or absent, and no chunk is left over.

use crate::client::Client;
use porpoise_testkit::Porpoise;
use porpoise_types::ValueRef;
use porpoise_wire::mysql::client;
use porpoise_wire::mysql::params::Param;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Length and letter of the `version`-th value of a row: some in the row, most in
/// parts, as one and as many.
fn value(id: usize, version: usize) -> Vec<u8> {
    let sizes = [100, 8_000, 9_000, 70_000, 300_000, 1_000_000];
    let size = sizes[(id * 7 + version * 3) % sizes.len()] + id % 10;
    let letter = b'a' + ((id + version) % 26) as u8;
    vec![letter; size]
}

/// Writes acknowledged to a writer, and the write whose outcome is unknown.
#[derive(Default)]
struct Acknowledged {
    /// By row, from 0: the version last acknowledged.
    rows: Vec<usize>,
    /// Row and version of the statement without an answer.
    open: Option<(usize, usize)>,
    wrong: Option<String>,
}

/// Inserts rows and replaces values of earlier ones until the server is gone.
fn write(address: SocketAddr, acknowledged: &Mutex<Acknowledged>) {
    let mut c = Client::root(address);
    let insert = c.prepare("INSERT INTO d.t VALUES (?, ?, ?)").unwrap();
    let update = c
        .prepare("UPDATE d.t SET version = ?, v = ? WHERE id = ?")
        .unwrap();
    for turn in 0usize.. {
        let (id, version) = {
            let acknowledged = acknowledged.lock().unwrap();
            let count = acknowledged.rows.len();
            if turn % 3 == 2 && count > 0 {
                (turn % count, acknowledged.rows[turn % count] + 1)
            } else {
                (count, 0)
            }
        };
        acknowledged.lock().unwrap().open = Some((id, version));
        let text = value(id, version);
        let number = |n: usize| Param::from(ValueRef::Int(n as i64));
        let null = Param::from(ValueRef::Null);
        let (statement, params, at) = match version {
            0 => (&insert, [number(id), number(0), null], 2),
            _ => (&update, [number(version), null, number(id)], 1),
        };
        for piece in text.chunks(150_000) {
            let mut out = Vec::new();
            client::long_data(&mut out, statement.id, at, piece);
            c.send(&out);
        }
        let answer = c.execute(statement.id, &params, &[usize::from(at)]);
        let mut acknowledged = acknowledged.lock().unwrap();
        if answer.affected != 1 {
            acknowledged.wrong = Some(format!("{:?}", answer.error));
            return;
        }
        match version {
            0 => acknowledged.rows.push(0),
            _ => acknowledged.rows[id] = version,
        }
        acknowledged.open = None;
    }
}

fn start(data: &Path, fault: Option<String>) -> Porpoise {
    let builder = Porpoise::builder().data_dir(data);
    match fault {
        None => builder.start(),
        Some(fault) => builder.disk_faults(fault).start(),
    }
}

/// Every row as it was acknowledged, or one further.
fn check(server: &Porpoise, acknowledged: &mut Acknowledged) {
    let mut c = Client::root(server.mysql_addr);
    let rows = c.good("SELECT id, version, v FROM d.t ORDER BY id").rows;
    let open = acknowledged.open.take();
    for (id, row) in rows.iter().enumerate() {
        let number = |at: usize| {
            let text = row[at].as_deref().map(String::from_utf8_lossy);
            text.unwrap().parse::<usize>().unwrap()
        };
        assert_eq!(number(0), id);
        let version = number(1);
        if acknowledged.rows.len() == id {
            acknowledged.rows.push(0);
            assert_eq!(open, Some((id, 0)), "a row that was not written");
        }
        if version != acknowledged.rows[id] {
            assert_eq!(
                open,
                Some((id, version)),
                "acknowledged: {}",
                acknowledged.rows[id]
            );
            acknowledged.rows[id] = version;
        }
        let is_whole = row[2].as_deref() == Some(value(id, version).as_slice());
        assert!(is_whole, "row {id}, version {version}");
    }
    assert_eq!(
        rows.len(),
        acknowledged.rows.len(),
        "an acknowledged row is gone"
    );
    let check = c.good("CHECK TABLE d.t").texts();
    assert_eq!(check[0][3], "OK", "{check:?}");
}

#[test]
fn power_cuts_amid_long_data_leave_whole_values() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let server = start(&data, None);
    let mut c = Client::root(server.mysql_addr);
    c.good("CREATE DATABASE d");
    c.good("CREATE TABLE d.t (id INT PRIMARY KEY, version INT NOT NULL, v LONGBLOB)");
    drop((c, server));
    let acknowledged = Arc::new(Mutex::new(Acknowledged::default()));
    for round in 0..6u64 {
        // Seed 0 keeps nothing that was not synced; others keep part of it.
        let fault = format!("seed={},cut_at={}", round * 7919, 300 + round * 97);
        let mut server = start(&data, Some(fault));
        let (address, theirs) = (server.mysql_addr, acknowledged.clone());
        // It ends by a panic when its connection does.
        let writer = std::thread::spawn(move || write(address, &theirs));
        let status = server.wait_end(Duration::from_secs(120));
        assert!(!status.success(), "the power went off");
        let _ = writer.join();
        acknowledged.clear_poison();
        let server = start(&data, None);
        let mut acknowledged = acknowledged.lock().unwrap();
        assert_eq!(acknowledged.wrong, None);
        check(&server, &mut acknowledged);
    }
    assert!(
        acknowledged.lock().unwrap().rows.len() > 20,
        "little was written"
    );
}
