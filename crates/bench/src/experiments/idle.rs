//! `bench idle`: cost of idle connections: the server's memory for each, and its CPU
//! time while they are opened.
//!
//! 1. A connection is logged in, and has answered one request, before it counts.
//! 2. The memory of a connection is the growth of the server's resident set divided by the number of connections. The
//!    server is warmed up before: connections that are opened and closed fill its caches.
//! 3. Only servers on this machine are measured.

use super::Bench;
use crate::connect::Admin;
use crate::error::{Error, Result};
use crate::procfs;
use crate::report::{Cell, Experiment, Run};
use crate::url::{System, Target};
use porpoise_native_client::{Address, Connection, Target as NativeTarget};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Connections unless chosen otherwise.
const CONNECTIONS: usize = 9_000;

/// Connections with `--quick`.
const QUICK_CONNECTIONS: usize = 1_000;

/// Connections that warm the server up.
const WARM_UP: usize = 200;

/// A protocol of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Native,
    Memcached,
    Sql,
}

impl Protocol {
    /// The protocols of a target.
    fn of(target: &Target) -> Vec<Protocol> {
        let mut protocols = Vec::new();
        if target.native_port != 0 {
            protocols.push(Protocol::Native);
        }
        if target.memcached_port != 0 || target.system == System::Memcached {
            protocols.push(Protocol::Memcached);
        }
        if matches!(target.system, System::Porpoise | System::Mysql) {
            protocols.push(Protocol::Sql);
        }
        protocols
    }

    fn name(self) -> &'static str {
        match self {
            Protocol::Native => "native",
            Protocol::Memcached => "memcached",
            Protocol::Sql => "SQL",
        }
    }
}

/// An open connection, which is closed when it is dropped.
struct Held {
    _connection: Box<dyn std::any::Any>,
}

/// Opens a connection.
fn open(target: &Target, protocol: Protocol) -> Result<Held> {
    let connection: Box<dyn std::any::Any> = match protocol {
        Protocol::Native => {
            let address = Address::Tcp(target.host.clone(), target.native_port);
            let native = NativeTarget::new(address, &target.user, &target.password);
            let failed = |error: porpoise_native_client::Error| Error::failed(error.to_string());
            let mut connection = Connection::connect(&native).map_err(failed)?;
            connection.ping().map_err(failed)?;
            Box::new(connection)
        }
        Protocol::Memcached => {
            let port = match target.memcached_port {
                0 => target.port,
                port => port,
            };
            let mut stream = TcpStream::connect((target.host.as_str(), port))?;
            stream.set_read_timeout(Some(Duration::from_secs(20)))?;
            stream.write_all(b"version\r\n")?;
            let mut answer = [0; 64];
            let length = stream.read(&mut answer)?;
            if !answer
                .get(..length)
                .is_some_and(|a| a.starts_with(b"VERSION "))
            {
                return Err(Error::failed("memcached does not answer"));
            }
            Box::new(stream)
        }
        Protocol::Sql => {
            let mut admin = Admin::connect(target)?;
            admin.run("select 1")?;
            Box::new(admin)
        }
    };
    Ok(Held {
        _connection: connection,
    })
}

/// Connections of a run, and the bytes that each of them takes.
struct Measurement {
    run: Run,
    bytes: u64,
}

/// Opens `count` connections, and measures the server while they are idle.
fn measure(target: &Target, pid: u32, protocol: Protocol, count: usize) -> Result<Measurement> {
    let gone = || Error::failed("the memory of the server's process cannot be read");
    let (before, time) = (
        procfs::resident(pid).ok_or_else(gone)?,
        procfs::server_time(pid).ok_or_else(gone)?,
    );
    let began = Instant::now();
    let mut held = Vec::with_capacity(count);
    for _ in 0..count {
        held.push(open(target, protocol)?);
    }
    let seconds = began.elapsed().as_secs_f64();
    let spent = procfs::server_time(pid).ok_or_else(gone)? - time;
    let grown = procfs::resident(pid)
        .ok_or_else(gone)?
        .saturating_sub(before);
    drop(held);
    Ok(Measurement {
        run: Run {
            requests: count as u64,
            seconds,
            throughput: count as f64 / seconds,
            server_micros: Some(spent * 1e6 / count as f64),
            ..Run::default()
        },
        bytes: grown / count as u64,
    })
}

/// `bench idle`.
///
/// # Errors
/// There is no server on this machine, or it refuses connections.
pub fn idle(bench: &mut Bench) -> Result<()> {
    bench.progress.begin("idle: idle connections");
    let usual = if bench.options.is_quick {
        QUICK_CONNECTIONS
    } else {
        CONNECTIONS
    };
    let counts = bench.clients(&[usual]);
    let (mut cells, mut notes) = (Vec::new(), Vec::new());
    let targets: Vec<(Target, u32)> = bench
        .targets
        .iter()
        .filter_map(|target| Some((target.clone(), target.pid?)))
        .collect();
    if targets.is_empty() {
        return Err(super::no_system("idle: no server on this machine", &notes));
    }
    let mut done = Ok(());
    'all: for (target, pid) in &targets {
        for protocol in Protocol::of(target) {
            for count in &counts {
                let measured = cell(bench, target, *pid, protocol, *count, &mut notes);
                match measured {
                    Ok(cell) => cells.push(cell),
                    Err(error) => {
                        done = Err(error);
                        break 'all;
                    }
                }
            }
        }
    }
    let about = "Connections opened one after the other, each with one answered request, and kept: \
                 connections a second, processor time of the server, and its memory for each (notes).";
    bench.keep(Experiment {
        cells,
        notes,
        ..Experiment::new("idle", "Idle connections", about, "connections")
    });
    done
}

/// All rounds of one protocol of a server.
fn cell(
    bench: &mut Bench,
    target: &Target,
    pid: u32,
    protocol: Protocol,
    count: usize,
    notes: &mut Vec<String>,
) -> Result<Cell> {
    let rounds = bench.options.effort.rounds.max(1);
    let mut cell = Cell {
        operation: format!("open by {}", protocol.name()),
        size: count as u64,
        system: target.name.clone(),
        client: "1 thread".to_owned(),
        units: 1,
        runs: Vec::new(),
    };
    measure(target, pid, protocol, WARM_UP.min(count))?;
    let mut bytes = Vec::new();
    for round in 0..rounds {
        if crate::sys::is_interrupted() {
            return Err(Error::failed(crate::load::INTERRUPTED));
        }
        let measured = measure(target, pid, protocol, count)?;
        bench.progress.one(&cell, round, rounds, &measured.run);
        bytes.push(measured.bytes);
        cell.runs.push(measured.run);
    }
    // The allocator may keep the memory of closed connections: only in the first round does the server request
    // all of it from the system.
    let most = bytes.iter().max().copied().unwrap_or(0);
    let note = format!(
        "{}, {}: {most} bytes for each of {count} idle connections",
        target.name,
        protocol.name()
    );
    bench.progress.say(&format!("   {note}"));
    notes.push(note);
    Ok(cell)
}
