//! A server process of these tests.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// The binary with all listeners off, on a data directory.
pub fn porpoise(data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_porpoise"));
    for (name, _) in std::env::vars().filter(|(n, _)| n.starts_with("PORPOISE_")) {
        command.env_remove(name);
    }
    command
        .arg("serve")
        .args(["--mysql-listen", "off", "--memcached-listen", "off"])
        .args(["--durability", "memory"])
        .arg("--data-dir")
        .arg(data)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Exit status and output of a server that does not start.
pub fn refusal(mut command: Command) -> (i32, String) {
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.stdout.is_empty(), "announced something");
    (output.status.code().unwrap(), said)
}

pub struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
    pub announced: Vec<String>,
}

impl Running {
    /// Starts it and waits until it is ready.
    pub fn start(mut command: Command) -> Running {
        let mut child = command.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut announced = Vec::new();
        loop {
            let mut line = String::new();
            if out.read_line(&mut line).unwrap() == 0 {
                let mut said = String::new();
                let _ = child.stderr.take().unwrap().read_to_string(&mut said);
                panic!("not ready: {said}");
            }
            announced.push(line.trim_end().to_owned());
            if line == "porpoise ready\n" {
                break;
            }
        }
        Running {
            child,
            out,
            announced,
        }
    }

    /// The announced address of a listener.
    pub fn place(&self, listener: &str) -> &str {
        let begin = format!("ready {listener} ");
        self.announced
            .iter()
            .find_map(|l| l.strip_prefix(&begin))
            .unwrap()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args([&format!("-{name}"), &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(status.success());
    }

    /// Waits for its end; the exit status and what else it printed.
    pub fn end(mut self) -> (i32, String) {
        let deadline = Instant::now() + Duration::from_secs(10);
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        (status.code().unwrap_or(-1), rest)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
