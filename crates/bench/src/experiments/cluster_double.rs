//! A test double of a TiKV cluster (`tests/tikv-double`), and Porpoise servers on it.

use crate::error::{Error, Result};
use crate::peers::{Durability, Server, Settings, Started, find_program, start_on_cluster};
use crate::sys::Signal;
use porpoise_client::http::{self, Endpoint, Limits, Request};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The program that answers as a cluster.
const DOUBLE: &str = "tikv-double";

/// Limits of a command to the double.
const LIMITS: Limits = Limits {
    wait: Duration::from_secs(10),
    response: 1 << 16,
};

/// A running double with one store.
pub struct ClusterDouble {
    engine: String,
    control: String,
    // Stopped when dropped.
    _process: Server,
}

impl ClusterDouble {
    /// Starts one, with its files in `home`.
    ///
    /// # Errors
    /// The program is not there, or does not start.
    pub fn start(home: &Path) -> Result<ClusterDouble> {
        let directory = tempfile::Builder::new()
            .prefix("tikv-double-")
            .tempdir_in(home)?;
        let mut command = Command::new(program()?);
        command.arg("-kv=127.0.0.1:0");
        let mut process = Server::start(DOUBLE, command, directory, Signal::Terminate)?;
        let (pd, control) = process.wait(|server| addresses_in(&server.output()))?;
        Ok(ClusterDouble {
            engine: format!("tikv://{pd}"),
            control,
            _process: process,
        })
    }

    /// Starts the program `porpoise` as a server of the cluster.
    ///
    /// # Errors
    /// It does not start.
    pub fn server(&self, home: &Path, porpoise: PathBuf) -> Result<Started> {
        let settings = Settings {
            durability: Durability::Sync,
            directory: home.to_owned(),
            porpoise,
            preload: None,
            binary_log: false,
            processors: None,
        };
        start_on_cluster(&settings, &self.engine)
    }

    /// Adds a time to every answer of the stores and of the placement driver.
    ///
    /// # Errors
    /// The double does not answer.
    pub fn set_latency(&self, latency: Duration) -> Result<()> {
        let query = format!("us={}", latency.as_micros());
        for path in ["/latency", "/pd-latency"] {
            let request = Request {
                method: "POST",
                path,
                query: &query,
                body: &[],
            };
            let endpoint = Endpoint::parse(&format!("http://{}", self.control));
            let endpoint = endpoint.ok_or_else(|| Error::failed("no address of the double"))?;
            let host = [("host", endpoint.host())];
            let response = http::send(&endpoint, &request, &host, LIMITS)?;
            if response.status != 200 {
                let status = response.status;
                return Err(Error::failed(format!("{DOUBLE}: {path}: status {status}")));
            }
        }
        Ok(())
    }
}

/// The double: beside this program, where `make test` builds it, or in the search path.
fn program() -> Result<PathBuf> {
    let here = std::env::current_exe()?;
    let beside = here.with_file_name(DOUBLE);
    let built = here.parent().map(|d| d.join("../tools/bin").join(DOUBLE));
    [Some(beside), built]
        .into_iter()
        .flatten()
        .find(|program| program.is_file())
        .or_else(|| find_program(DOUBLE, &[]))
        .ok_or_else(|| {
            Error::failed(format!(
                "{DOUBLE} is not there: build tests/{DOUBLE} with Go, or run `make test`"
            ))
        })
}

/// Addresses of the placement driver and of the control interface, once they are announced.
fn addresses_in(output: &str) -> Option<(String, String)> {
    let (line, _) = output.split_once("READY ")?.1.split_once('\n')?;
    let value = |name| line.split(' ').find_map(|part| part.strip_prefix(name));
    Some((value("pd=")?.to_owned(), value("control=")?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_are_read_once_they_are_complete() {
        let line = "READY pd=127.0.0.1:41 control=127.0.0.1:42";
        assert_eq!(addresses_in(line), None);
        let found = addresses_in(&format!("starting\n{line}\n"));
        let expected = ("127.0.0.1:41".to_owned(), "127.0.0.1:42".to_owned());
        assert_eq!(found, Some(expected));
    }
}
