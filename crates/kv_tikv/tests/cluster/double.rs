//! Starts, controls and stops the test double of a cluster (`tests/tikv-double`).
//!
//! The process ends when its standard input is closed, so it cannot outlive the test program.
//! Dropping a [`Double`], also in a panic, ends the process and waits for it.

use porpoise_kv::{Engine, Key, LockMode, LockRequest, SpaceId, SpaceSpec, Txn, TxnOptions, Wait};
use porpoise_kv_tikv::{KvTikv, KvTikvOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// A running double.
pub struct Double {
    child: Child,
    pd: String,
    control: String,
}

fn program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/tikv-double");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tikvdouble");
        let built = Command::new("go")
            .args(["build", "-o"])
            .arg(&program)
            .arg(".")
            .current_dir(source)
            .status()
            .expect("the Go tools are needed to build tests/tikv-double");
        assert!(built.success(), "tests/tikv-double does not build");
        program
    })
}

impl Double {
    /// Starts one with a placement driver and two stores, on free ports.
    pub fn start() -> Double {
        Double::with(1, 2)
    }

    /// Starts one with these numbers of placement drivers and stores.
    pub fn with(placement_drivers: usize, stores: usize) -> Double {
        Double::with_arguments(placement_drivers, stores, &[])
    }

    /// As [`Double::with`], with more arguments.
    pub fn with_arguments(placement_drivers: usize, stores: usize, more: &[&str]) -> Double {
        let addresses = |n| vec!["127.0.0.1:0"; n].join(",");
        let mut child = Command::new(program())
            .args(["-until-stdin-ends", "-pd", &addresses(placement_drivers)])
            .args(["-kv", &addresses(stores)])
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the double starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let ready = loop {
            let line = lines.next().expect("the double is ready").expect("text");
            if line.starts_with("READY") {
                break line;
            }
        };
        // Reads the rest of the output, so that the pipe does not fill up.
        std::thread::spawn(move || lines.for_each(drop));
        let field = |name: &str| {
            let mut words = ready.split_whitespace();
            let value = words.find_map(|w| w.strip_prefix(name));
            value.expect("an address").to_owned()
        };
        Double {
            pd: field("pd="),
            control: field("control="),
            child,
        }
    }

    fn http(&self, method: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.control).expect("the control port");
        write!(stream, "{method} {path} HTTP/1.0\r\n\r\n").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
        assert!(head.contains(" 200 "), "{method} {path}: {head}");
        body.to_owned()
    }

    /// Gives a command of `tests/tikv-double/faults.go`.
    pub fn command(&self, path: &str) -> String {
        self.http("POST", path)
    }

    /// The locks in the store, one line each.
    pub fn locks(&self) -> Vec<String> {
        let all = self.http("GET", "/locks");
        all.lines().map(str::to_owned).collect()
    }

    /// The double's answer to a query of `tests/tikv-double/faults.go`.
    pub fn ask(&self, path: &str) -> String {
        self.http("GET", path).trim().to_owned()
    }

    /// Number of versions of keys with a prefix.
    pub fn versions(&self, prefix: &[u8]) -> usize {
        let number = self.ask(&format!("/versions?key={}", hex(prefix)));
        number.parse().expect("a number")
    }

    /// Calls of a method so far.
    pub fn calls(&self, method: &str) -> u64 {
        let all = self.http("GET", "/counts");
        all.lines()
            .filter_map(|line| line.split_once(' '))
            .find(|(_, name)| *name == method)
            .map_or(0, |(n, _)| n.parse().expect("a number"))
    }

    /// The usual options.
    pub fn options(&self) -> KvTikvOptions {
        KvTikvOptions {
            endpoints: self.pd.split(',').map(str::to_owned).collect(),
            ..KvTikvOptions::default()
        }
    }

    /// Connects another server to this cluster.
    pub fn server(&self) -> Arc<dyn Engine> {
        self.engine()
    }

    /// As [`Double::server`], with the counts of its requests at hand.
    pub fn engine(&self) -> Arc<KvTikv> {
        Arc::new(KvTikv::connect(self.options()).expect("connected"))
    }

    /// A server that gives up early when the cluster does not serve it.
    pub fn impatient(&self) -> Arc<dyn Engine> {
        let options = KvTikvOptions {
            retry_timeout: Duration::from_secs(2),
            ..self.options()
        };
        Arc::new(KvTikv::connect(options).expect("connected"))
    }
}

/// Name of the environment variable that names a placement driver of an existing cluster. Tests that command
/// nothing of the double use that cluster then.
const EXISTING: &str = "PORPOISE_TEST_TIKV";

/// An existing cluster, or a double.
pub enum AnyCluster {
    Double(Double),
    Existing(KvTikvOptions),
}

impl AnyCluster {
    /// A cluster for one test. In an existing one, a tenant of its own.
    pub fn start() -> AnyCluster {
        let Ok(endpoint) = std::env::var(EXISTING) else {
            return AnyCluster::Double(Double::start());
        };
        // A random number, so that data of earlier runs is not met.
        let random = RandomState::new().build_hasher().finish() as u32;
        AnyCluster::Existing(KvTikvOptions {
            endpoints: endpoint.split(',').map(str::to_owned).collect(),
            tenant: random | 1 << 31,
            ..KvTikvOptions::default()
        })
    }

    /// A cluster whose faults and regions the test controls: always a double.
    pub fn commanded() -> AnyCluster {
        AnyCluster::Double(Double::start())
    }

    /// The usual options.
    pub fn options(&self) -> KvTikvOptions {
        match self {
            AnyCluster::Double(double) => double.options(),
            AnyCluster::Existing(options) => options.clone(),
        }
    }

    /// Connects another server to this cluster.
    pub fn server(&self) -> Arc<dyn Engine> {
        self.engine()
    }

    /// As [`AnyCluster::server`], by its own type.
    pub fn engine(&self) -> Arc<KvTikv> {
        Arc::new(KvTikv::connect(self.options()).expect("connected"))
    }

    /// The double, which this cluster must be.
    pub fn double(&self) -> &Double {
        match self {
            AnyCluster::Double(double) => double,
            AnyCluster::Existing(_) => {
                panic!("a test that commands faults has started its own double")
            }
        }
    }
}

impl Drop for Double {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A new space.
pub fn space(engine: &Arc<dyn Engine>) -> SpaceId {
    engine.create_spaces(&[SpaceSpec::default()]).unwrap()[0]
}

/// A transaction with the usual options.
pub fn begin(engine: &Arc<dyn Engine>) -> Box<dyn Txn> {
    engine.begin(TxnOptions::default()).unwrap()
}

/// Locks keys, waiting for at most `patience`, and returns their values.
pub fn lock(
    txn: &mut dyn Txn,
    space: SpaceId,
    keys: &[&str],
    patience: Duration,
) -> porpoise_kv::Result<Vec<Option<String>>> {
    let requests: Vec<LockRequest<'_>> = keys
        .iter()
        .map(|key| LockRequest {
            key: Key::new(space, key.as_bytes()),
            mode: LockMode::Exclusive,
        })
        .collect();
    let mut values = vec![None; keys.len()];
    let wait = Wait::Until(Instant::now() + patience);
    txn.lock(&requests, wait, &mut |i, locked| {
        values[i] = locked
            .value
            .map(|v| String::from_utf8_lossy(v).into_owned());
    })?;
    Ok(values)
}

/// Reads a key in a transaction of its own.
pub fn get(engine: &Arc<dyn Engine>, space: SpaceId, key: &str) -> Option<String> {
    let mut value = None;
    let keys = [Key::new(space, key.as_bytes())];
    begin(engine)
        .get(porpoise_kv::Read::CURRENT, &keys, &mut |_, v| {
            value = v.map(|v| String::from_utf8_lossy(v).into_owned());
        })
        .unwrap();
    value
}

/// Sets keys in a transaction of its own.
pub fn set(engine: &Arc<dyn Engine>, space: SpaceId, pairs: &[(&str, &str)]) {
    let mut txn = begin(engine);
    for (key, value) in pairs {
        let key = Key::new(space, key.as_bytes());
        txn.put(key, value.as_bytes(), porpoise_kv::Check::Blind)
            .unwrap();
    }
    txn.commit().unwrap();
}

/// Prefix of the cluster keys of a space in group 0, partition 0 of tenant 0.
pub fn prefix(space: SpaceId) -> Vec<u8> {
    assert!((1..256).contains(&space.0), "one byte in this helper");
    vec![b'p', 0, 0x10, 0, 0, 1, space.0 as u8]
}

/// Bytes as hex digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
