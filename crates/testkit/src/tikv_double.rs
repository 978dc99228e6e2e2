//! The TiKV double: one process that answers as a placement driver and as stores.

use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use crate::process::{Process, directory, wait_until};
use crate::{fail, go, ports};

const SOURCES: &str = "tests/tikv-double";
const START: Duration = Duration::from_secs(30);

/// A running TiKV double.
pub struct TikvDouble {
    /// Address of its placement driver.
    pub pd_addr: SocketAddr,
    process: Process,
    _directory: tempfile::TempDir,
}

impl TikvDouble {
    /// Starts one with one store in memory, its key space divided at the given keys.
    pub fn start(split_at: &[&str]) -> Self {
        let program = go::build("tikv-double", SOURCES);
        for _ in 0..ports::TRIES {
            let home = directory("tikv-double");
            let addresses = ports::free(2);
            let [pd, store] = addresses.as_slice() else {
                continue;
            };
            let mut command = Command::new(&program);
            command.arg(format!("-pd={pd}")).arg(format!("-kv={store}"));
            if !split_at.is_empty() {
                command.arg(format!("-split={}", split_at.join(",")));
            }
            let mut process = Process::start("tikv-double", command, home.path(), "build it again");
            let is_ready = wait_until(START, || match process.ended() {
                Some(_) => Some(false),
                None => both_answer(*pd, *store).then_some(true),
            });
            match is_ready {
                Some(true) => {
                    return Self {
                        pd_addr: *pd,
                        process,
                        _directory: home,
                    };
                }
                Some(false) if process.log().contains("in use") => {}
                _ => fail(
                    "tikv-double",
                    format_args!("did not get ready\n{}", process.log()),
                ),
            }
        }
        fail("tikv-double", "found no ports that stayed free")
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }
}

fn both_answer(pd: SocketAddr, store: SocketAddr) -> bool {
    TcpStream::connect(pd).is_ok() && TcpStream::connect(store).is_ok()
}
