//! memcached: a thread for each core, as Porpoise has, and room for 4 GiB, so
//! that nothing is evicted while experiments insert.

use super::process::{Server, directory};
use super::{Settings, Started, TRIES, find_program, free_port, version};
use crate::error::{Error, Result};
use crate::sys::{self, Signal};
use crate::url::Target;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

/// Time within which it must report its process id.
const PATIENCE: Duration = Duration::from_secs(1);

const OPTIONS: &[&str] = &["-l", "127.0.0.1", "-U", "0", "-m", "4096"];

/// Connections requested: 20,000, or what the limit of open files allows
/// beside memcached's own files.
fn most_connections() -> u64 {
    sys::open_files().saturating_sub(200).clamp(64, 20_000)
}

/// Whether that process answers at the port: another one may have taken it first.
fn is_answered_by(process: u32, port: u16) -> Option<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(b"stats\r\n").ok()?;
    let mut first = [0; 64];
    let n = stream.read(&mut first).ok()?;
    let line = format!("STAT pid {process}\r\n");
    first.get(..n)?.starts_with(line.as_bytes()).then_some(())
}

/// Starts one.
pub fn start(settings: &Settings) -> Result<Option<Started>> {
    let Some(program) = find_program("memcached", &["/usr/bin"]) else {
        return Ok(None);
    };
    // Its own default of four is too few on larger machines, too many on smaller ones.
    let threads = settings.cores();
    for _ in 0..TRIES {
        let port = free_port()?;
        let mut command = Command::new(&program);
        command
            .args(OPTIONS)
            .args(["-t", &threads.to_string()])
            .args(["-c", &most_connections().to_string()])
            .args(["-p", &port.to_string()]);
        if sys::is_root() {
            command.args(["-u", "root"]);
        }
        settings.pin(&mut command);
        let home = directory(settings, "memcached")?;
        let mut server = Server::start("memcached", command, home, Signal::Terminate)?;
        let id = server.id();
        let ready = server.wait(|_| is_answered_by(id, port));
        if ready.is_err() && server.output().contains("in use") {
            continue;
        }
        ready?;
        let mut target = Target::parse(&format!("memcached://127.0.0.1:{port}"))?;
        target.pid = Some(server.id());
        return Ok(Some(Started {
            target,
            settings: format!(
                "{}; -t {threads} -m 4096, keeps nothing",
                version(&program, "-V")
            ),
            server,
        }));
    }
    Err(Error::failed(
        "memcached: every free port was taken by another process before the server used it",
    ))
}
