//! Options of the subcommands, with their help texts.

use super::DEFAULT_PEERS;
use crate::error::{Error, Result};
use crate::experiments::BenchOptions;
use crate::experiments::dump::ImportOptions;
use crate::experiments::kv::Operation;
use crate::experiments::memcached;
use crate::experiments::memcached_runs::MemcachedOptions;
use crate::experiments::native;
use crate::load::{Pace, Shape};
use crate::matrix::Effort;
use crate::peers::Durability;
use crate::proto::dialects::Dialect;
use crate::sys::Processors;
use crate::url::Target;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::time::Duration;

/// Shortest run: less than this no answer may come in.
const SHORTEST: Duration = Duration::from_millis(1);

/// An option with a value.
pub(super) fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

/// Options of the published experiment's tool.
pub(super) fn add_fk_options(command: Command) -> Command {
    let short = |name: &'static str, short: char, value: &'static str, help: &'static str| {
        Arg::new(name).short(short).value_name(value).help(help)
    };
    command
        .disable_help_flag(true)
        .arg(
            Arg::new("help")
                .long("help")
                .action(ArgAction::Help)
                .help("Print help"),
        )
        .arg(short(
            "host",
            'h',
            "HOST[:PORT]",
            "Server that speaks MySQL's protocol, instead of URLs",
        ))
        .arg(short("user", 'u', "USER", "User there [default: root]"))
        .arg(short("password", 'p', "PASSWORD", "Password there"))
        .arg(short(
            "threads",
            't',
            "N",
            "Connections, each with a thread [default: 8]",
        ))
        .arg(short(
            "loops",
            'l',
            "N",
            "Rows that each connection inserts, instead of a time",
        ))
}

/// Options that `bench memcached` has besides.
pub(super) fn add_memcached_options(command: Command) -> Command {
    command
        .mut_arg("ops", |arg| arg.help("get, set, incr, delete, mget"))
        .arg(option("protocol", "LIST", "ascii, meta, binary"))
        .arg(option("pipeline", "LIST", "Requests in a write, like 1,16"))
}

/// Options of `bench memcached` only.
///
/// # Errors
/// A usage error.
pub(super) fn memcached_options(given: &ArgMatches) -> Result<MemcachedOptions> {
    let mut options = MemcachedOptions::default();
    if let Some(list) = text(given, "ops") {
        options.operations = memcached::Operation::parse_list(list)?;
    }
    if let Some(list) = text(given, "protocol") {
        options.dialects = Dialect::parse_list(list)?;
    }
    if let Some(list) = text(given, "pipeline") {
        let one = |word: &str| number("pipeline", word, 1, 1000).map(|n| n as usize);
        options.depths = list.split(',').map(one).collect::<Result<_>>()?;
    }
    if text(given, "shape").is_some() {
        options.shapes = vec![shape(given)?];
    }
    options.is_timed = text(given, "time").is_some();
    Ok(options)
}

/// Options that `bench native` has besides.
pub(super) fn add_native_options(command: Command) -> Command {
    command
        .mut_arg("ops", |arg| {
            arg.help("mget, get, hot, scan, update, modify, insert")
        })
        .mut_arg("durability", |arg| {
            arg.help("One after the other, like memory,interval,sync")
        })
        .arg(option("stores", "LIST", "rows, engine, posts"))
        .arg(option(
            "calls",
            "N",
            "Calls of each thread, instead of a time",
        ))
        .arg(
            Arg::new("starts")
                .long("starts")
                .action(ArgAction::SetTrue)
                .help("Also how long a start takes, from a checkpoint and from the log"),
        )
}

/// Further options of `bench budgets`.
pub(super) fn add_budgets_options(command: Command) -> Command {
    command.arg(option(
        "only",
        "WORDS",
        "Only budgets whose operation or experiment contains one of these words, like: SELECT,foreign keys",
    ))
}

/// Options that `bench dump` has besides.
pub(super) fn add_dump_options(command: Command) -> Command {
    command.arg(option("size-mb", "N", "Size of the dump [default: 32]"))
}

/// Further options of `bench import`.
pub(super) fn add_import_options(command: Command) -> Command {
    command
        .arg(option(
            "size-mb",
            "N",
            "Size of the tables, as a dump [default: 128]",
        ))
        .arg(option(
            "writes",
            "N",
            "Writes a second while the lag is measured [default: 1000]",
        ))
}

/// Options of `bench import`. `bench dump` has only the option of the size.
///
/// # Errors
/// A usage error.
pub(super) fn import_options(name: &str, given: &ArgMatches) -> Result<ImportOptions> {
    if name != "import" {
        return Ok(ImportOptions {
            size_mb: size_mb(name, given)?,
            writes: None,
        });
    }
    let writes = text(given, "writes");
    Ok(ImportOptions {
        size_mb: size_mb(name, given)?,
        writes: writes
            .map(|writes| number("writes", writes, 1, 100_000))
            .transpose()?,
    })
}

/// The size of the dump of `bench dump` and `bench import`, if it is chosen.
///
/// # Errors
/// A usage error.
fn size_mb(name: &str, given: &ArgMatches) -> Result<Option<u64>> {
    if !matches!(name, "dump" | "import") {
        return Ok(None);
    }
    let size = text(given, "size-mb");
    size.map(|size| number("size-mb", size, 1, 100_000))
        .transpose()
}

/// Parses the options of `bench native`. `bench all` has only its durability option.
///
/// # Errors
/// A usage error.
fn native_options(name: &str, given: &ArgMatches) -> Result<native::NativeOptions> {
    let durabilities = text(given, "durability").unwrap_or("sync").split(',');
    let mut options = native::NativeOptions {
        durabilities: durabilities.map(Durability::parse).collect::<Result<_>>()?,
        ..native::NativeOptions::default()
    };
    if name != "native" {
        return Ok(options);
    }
    if let Some(list) = text(given, "ops") {
        options.works = native::NativeOptions::parse_works(list)?;
    }
    if let Some(list) = text(given, "stores") {
        options.stores = list.split(',').map(|word| word.trim().to_owned()).collect();
    }
    let calls = text(given, "calls");
    let calls = calls.map(|calls| number("calls", calls, 1, 1_000_000_000_000));
    options.calls = calls.transpose()?;
    options.times_starts = given.get_flag("starts");
    Ok(options)
}

fn shape(given: &ArgMatches) -> Result<Shape> {
    Ok(match text(given, "shape") {
        None | Some("thread") => Shape::ThreadEach,
        Some(word) => Shape::Multiplexed(number("shape", word, 1, 256)? as usize),
    })
}

/// Options that all experiments have.
pub(super) fn common(command: Command) -> Command {
    command
        .arg(
            Arg::new("target")
                .value_name("URL")
                .num_args(0..)
                .help("mysql://, postgres://, memcached://, porpoise:// [USER[:PASSWORD]@]HOST[:PORT][/DATABASE][?name=,pid=,prefix=,memcached=]"),
        )
        .arg(
            option("start-peers", "LIST", "Start these on free ports and stop them at the end [default: porpoise,mariadb,postgres,memcached; also: noop]")
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value(DEFAULT_PEERS),
        )
        .arg(option("durability", "MODE", "Of started servers: sync, interval, memory").default_value("sync"))
        .arg(option("fsync-delay", "TIME", "Add this to every fsync of started servers, like 1ms"))
        .arg(option("porpoise", "PROGRAM", "Program to start as Porpoise [default: the one beside this program]"))
        .arg(option("dir", "DIR", "Where started servers keep their files"))
        .arg(option("runs", "N", "Rounds of runs [default: 3]"))
        .arg(option("time", "TIME", "Length of a run [default: 3s]"))
        .arg(option("warm-up", "TIME", "Before each run [default: 1s]"))
        .arg(option("clients", "LIST", "Numbers of clients, like 1,8,64"))
        .arg(option("shape", "SHAPE", "thread (one for each connection), or a number of multiplexing threads"))
        .arg(option("rate", "N", "Open loop: requests a second of all connections together, due at fixed times"))
        .arg(option("generators", "N", "Generator processes that share the connections [default: 1]"))
        .arg(option("pin", "LIST", "Processors of started servers and of the generator, like server=0,generator=1 or server=0-1+4"))
        .arg(option("ops", "LIST", "insert, update, select, delete, mix"))
        .arg(option("rows", "N", "Rows of the table"))
        .arg(option("seed", "N", "Seed of all keys").default_value("1"))
        .arg(
            Arg::new("log-bin")
                .long("log-bin")
                .action(ArgAction::SetTrue)
                .help("Started Porpoise and MariaDB keep a binary log"),
        )
        .arg(
            Arg::new("quick")
                .long("quick")
                .action(ArgAction::SetTrue)
                .help("Shorter and fewer runs"),
        )
        .arg(option("json", "FILE", "Write results here; in a directory, as DATE-EXPERIMENT.json"))
        .arg(option("csv", "FILE", "Write a line for each run here"))
        .arg(option("html", "FILE", "Write a page with charts here"))
}

/// Options that experiments of queries have no use for.
const UNUSED_BY_QUERIES: &[&str] = &[
    "ops",
    "shape",
    "clients",
    "time",
    "warm-up",
    "rate",
    "generators",
];

/// Options that an experiment does not use. They are refused: ignoring them would measure something other
/// than what was requested.
const UNUSED: &[(&str, &[&str])] = &[
    ("mget", &["ops", "shape"]),
    ("async", &["ops", "shape", "rate", "generators"]),
    ("fk", &["ops", "rows"]),
    ("autoinc", &["ops", "rows"]),
    ("blob", &["ops"]),
    ("connections", &["ops", "shape"]),
    (
        "idle",
        &[
            "ops",
            "shape",
            "time",
            "warm-up",
            "rows",
            "rate",
            "generators",
        ],
    ),
    ("native", &["shape", "rate", "generators"]),
    ("sysbench", &["ops", "shape", "rate", "generators"]),
    ("backup", &["rate", "generators"]),
    ("log", &["ops", "log-bin", "rate", "generators"]),
    ("contention", &["ops", "shape", "rate", "generators"]),
    ("programs", &["ops", "rows", "rate", "generators"]),
    ("all", &["rate", "generators"]),
    (
        "requests",
        &[
            "ops",
            "shape",
            "clients",
            "time",
            "warm-up",
            "rows",
            "runs",
            "rate",
            "generators",
            "start-peers",
            "pin",
        ],
    ),
    (
        "cluster",
        &["ops", "rows", "rate", "generators", "start-peers", "pin"],
    ),
    (
        "import",
        &[
            "ops",
            "shape",
            "clients",
            "warm-up",
            "rows",
            "log-bin",
            "rate",
            "generators",
        ],
    ),
    (
        "dump",
        &[
            "ops",
            "shape",
            "clients",
            "time",
            "warm-up",
            "rows",
            "rate",
            "generators",
        ],
    ),
    ("analytics", UNUSED_BY_QUERIES),
    ("fulltext", UNUSED_BY_QUERIES),
    ("schema-change", &["ops", "shape", "rate", "generators"]),
    ("tpch", UNUSED_BY_QUERIES),
    // Budgets determine the settings of their measurements.
    (
        "budgets",
        &[
            "ops",
            "shape",
            "clients",
            "start-peers",
            "durability",
            "fsync-delay",
            "rate",
            "generators",
        ],
    ),
];

/// Refuses options that the experiment has no use for.
///
/// # Errors
/// A usage error that names the option.
pub(super) fn refuse_unused(experiment: &str, given: &ArgMatches) -> Result<()> {
    let unused = UNUSED.iter().filter(|(name, _)| *name == experiment);
    for option in unused.flat_map(|(_, options)| *options) {
        if given.value_source(option) == Some(ValueSource::CommandLine) {
            return Err(Error::usage(format!(
                "--{option}: bench {experiment} has no use for it"
            )));
        }
    }
    if experiment == "blob" && text(given, "clients").is_some_and(|list| list.contains(',')) {
        return Err(Error::usage(
            "--clients: bench blob runs over lengths and takes one number of clients",
        ));
    }
    Ok(())
}

/// Reads the options of the published tool; the rows for each connection.
pub(super) fn read_fk_options(
    given: &ArgMatches,
    targets: &mut Vec<Target>,
    options: &mut BenchOptions,
) -> Result<Option<u64>> {
    if text(given, "host").is_none() && (text(given, "user").or(text(given, "password"))).is_some()
    {
        return Err(Error::usage("-u and -p belong to -h; URLs hold their own"));
    }
    if let Some(host) = text(given, "host") {
        let mut target = Target::parse(&format!("mysql://{host}"))?;
        if let Some(user) = text(given, "user") {
            user.clone_into(&mut target.user);
        }
        if let Some(password) = text(given, "password") {
            password.clone_into(&mut target.password);
        }
        targets.push(target);
    }
    if let Some(threads) = text(given, "threads") {
        options.clients = vec![number("t", threads, 1, 20_000)? as usize];
    }
    let loops = text(given, "loops");
    loops.map(|l| number("l", l, 1, 1_000_000_000)).transpose()
}

/// Parsed options of a subcommand.
///
/// # Errors
/// A usage error.
pub(super) fn bench_options(name: &str, given: &ArgMatches) -> Result<BenchOptions> {
    let is_quick = given.get_flag("quick");
    let (rounds, time, warm_up) = if is_quick {
        (3, Duration::from_millis(700), Duration::from_millis(200))
    } else {
        (3, Duration::from_secs(3), Duration::from_secs(1))
    };
    let mut memcached = MemcachedOptions::default();
    let operations = match text(given, "ops") {
        _ if name == "memcached" => {
            memcached = memcached_options(given)?;
            Vec::new()
        }
        _ if name == "native" => Vec::new(),
        Some(list) => Operation::parse_list(list)?,
        None => Vec::new(),
    };
    let clients = match text(given, "clients") {
        Some(list) => list
            .split(',')
            .map(|word| number("clients", word, 1, 20_000).map(|n| n as usize))
            .collect::<Result<Vec<_>>>()?,
        None => Vec::new(),
    };
    let fewest = if name == "contention" { 2 } else { 100 };
    Ok(BenchOptions {
        effort: Effort {
            rounds: number_or(given, "runs", rounds, 1, 1000)? as usize,
            warm_up: duration(given, "warm-up")?.unwrap_or(warm_up),
            time: duration(given, "time")?.unwrap_or(time).max(SHORTEST),
            count_futexes: None,
            pace: pace(given)?,
        },
        clients,
        shape: shape(given)?,
        operations,
        keys: Vec::new(),
        scripts: Vec::new(),
        memcached,
        native: native_options(name, given)?,
        rows: number_or(given, "rows", 0, fewest, 100_000_000)?,
        seed: number_or(given, "seed", 1, 0, u64::MAX)?,
        is_quick,
    })
}

/// Closed or open loop, and the number of generator processes.
fn pace(given: &ArgMatches) -> Result<Pace> {
    let rate = text(given, "rate").map(|rate| number("rate", rate, 1, 100_000_000));
    Ok(Pace {
        rate: rate.transpose()?.map(|rate| rate as f64),
        generators: number_or(given, "generators", 1, 1, 64)? as usize,
    })
}

/// Processors of servers and generator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pinning {
    pub(super) server: Option<Processors>,
    pub(super) generator: Option<Processors>,
}

impl Pinning {
    /// Parses `server=0,generator=1-3`.
    ///
    /// # Errors
    /// A usage error.
    pub(super) fn parse(list: &str, allowed: &Processors) -> Result<Pinning> {
        let bad = |word: &str, why: String| Error::usage(format!("--pin {word:?}: {why}"));
        let mut pinning = Pinning::default();
        for word in list.split(',') {
            let (role, processors) = word.split_once('=').unwrap_or((word, ""));
            let place = match role.trim() {
                "server" => &mut pinning.server,
                "generator" => &mut pinning.generator,
                _ => return Err(bad(word, "expected server= or generator=".to_owned())),
            };
            let found = Processors::parse(processors.trim());
            let found =
                found.ok_or_else(|| bad(word, "expected processors like 0, 0-3, 0+2".into()))?;
            if let Some(missing) = found.missing_from(allowed) {
                let words = allowed.words();
                return Err(bad(
                    word,
                    format!("processor {missing} is not one of {words}"),
                ));
            }
            *place = Some(found);
        }
        Ok(pinning)
    }

    /// Words for reports; empty where nothing is pinned.
    pub(super) fn words(&self) -> String {
        let of = |role: &str, processors: &Option<Processors>| {
            processors
                .as_ref()
                .map(|p| format!("{role} to {}", p.words()))
        };
        let all = [
            of("servers", &self.server),
            of("generator", &self.generator),
        ];
        all.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// The option `--pin`.
///
/// # Errors
/// A usage error.
pub(super) fn pinning(given: &ArgMatches) -> Result<Pinning> {
    match text(given, "pin") {
        None => Ok(Pinning::default()),
        Some(list) => Pinning::parse(list, &Processors::allowed()?),
    }
}

/// An option's text.
pub(super) fn text<'a>(given: &'a ArgMatches, name: &str) -> Option<&'a str> {
    given.get_one::<String>(name).map(String::as_str)
}

/// A number within bounds.
pub(super) fn number(name: &str, word: &str, low: u64, high: u64) -> Result<u64> {
    word.trim()
        .parse()
        .ok()
        .filter(|n| (low..=high).contains(n))
        .ok_or_else(|| Error::usage(format!("--{name} {word:?}: expected {low} to {high}")))
}

fn number_or(given: &ArgMatches, name: &str, usual: u64, low: u64, high: u64) -> Result<u64> {
    match text(given, name) {
        None => Ok(usual),
        Some(word) => number(name, word, low, high),
    }
}

/// A time like `3s`, `500ms`, `200us`, `2m`.
pub(super) fn duration(given: &ArgMatches, name: &str) -> Result<Option<Duration>> {
    let Some(word) = text(given, name) else {
        return Ok(None);
    };
    let parsed = parse_duration(word);
    let bad = || {
        Error::usage(format!(
            "--{name} {word:?}: expected a time like 3s, 500ms or 200us"
        ))
    };
    parsed.ok_or_else(bad).map(Some)
}

fn parse_duration(word: &str) -> Option<Duration> {
    let split = word.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (digits, unit) = word.split_at_checked(split)?;
    let factor = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        _ => return None,
    };
    let seconds = digits.parse::<f64>().ok()? * factor;
    (0.0..=86_400.0)
        .contains(&seconds)
        .then(|| Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::super::{EXPERIMENTS, command};
    use super::*;

    #[test]
    fn every_experiment_has_its_subcommand() {
        let command = command();
        command.clone().debug_assert();
        for (name, _) in EXPERIMENTS {
            assert!(command.find_subcommand(name).is_some(), "{name}");
        }
        let words = [
            "bench", "fk", "-h", "db:3307", "-u", "joe", "-p", "s", "-t", "4", "-l", "99",
        ];
        let matches = command.try_get_matches_from(words).unwrap();
        let given = matches.subcommand().unwrap().1;
        let (mut targets, mut options) = (Vec::new(), bench_options("fk", given).unwrap());
        let limit = read_fk_options(given, &mut targets, &mut options).unwrap();
        assert_eq!((limit, options.clients), (Some(99), vec![4]));
        assert_eq!(targets[0].port, 3307);
        assert_eq!(
            (targets[0].user.as_str(), targets[0].password.as_str()),
            ("joe", "s")
        );
    }

    fn given(words: &[&str]) -> Result<BenchOptions> {
        let matches = command().try_get_matches_from(words).unwrap();
        let (name, given) = matches.subcommand().unwrap();
        bench_options(name, given)
    }

    #[test]
    fn options_without_a_use_are_refused() {
        let refuse = |experiment: &str, words: &[&str]| {
            let head = ["bench", experiment];
            let words = head.iter().chain(words);
            let matches = command().try_get_matches_from(words).unwrap();
            refuse_unused(experiment, matches.subcommand().unwrap().1)
        };
        assert!(refuse("kv", &["--ops", "get", "--shape", "2"]).is_ok());
        let error = refuse("mget", &["--ops", "get"]).unwrap_err();
        assert!(error.to_string().contains("--ops"), "{error}");
        assert!(refuse("fk", &["--rows", "9"]).is_err());
        assert!(refuse("blob", &["--clients", "8,64"]).is_err());
        assert!(refuse("blob", &["--clients", "8"]).is_ok());
        assert!(refuse("kv", &["--rate", "5", "--generators", "2"]).is_ok());
        assert!(refuse("sysbench", &["--rate", "5"]).is_err());
        assert!(refuse("budgets", &["--runs", "5"]).is_ok());
        assert!(refuse("budgets", &["--durability", "sync"]).is_err());
    }

    #[test]
    fn options_are_read() {
        let words = [
            "bench",
            "kv",
            "--clients",
            "1,8,64",
            "--time",
            "250ms",
            "--shape",
            "2",
            "--ops",
            "get,set",
            "--rate",
            "5000",
            "--generators",
            "2",
        ];
        let options = given(&words).unwrap();
        let pace = options.effort.pace;
        assert_eq!((pace.rate, pace.generators), (Some(5000.0), 2));
        assert_eq!(options.clients, [1, 8, 64]);
        assert_eq!(options.effort.time, Duration::from_millis(250));
        assert_eq!(options.shape, Shape::Multiplexed(2));
        assert_eq!(options.operations, [Operation::Select, Operation::Update]);
    }

    #[test]
    fn the_memcached_experiment_has_options_of_its_own() {
        let words = "bench memcached --ops get,mget --protocol meta,binary --pipeline 1,16 \
                     --shape 2 --time 1s";
        let words: Vec<&str> = words.split_whitespace().collect();
        let options = given(&words).unwrap().memcached;
        assert_eq!(options.operations.len(), 5);
        assert_eq!(options.dialects, [Dialect::Meta, Dialect::Binary]);
        assert_eq!(options.depths, [1, 16]);
        assert_eq!(options.shapes, [Shape::Multiplexed(2)]);
        assert!(options.is_timed);
        for (option, value) in [("--ops", "fly"), ("--protocol", "udp"), ("--pipeline", "0")] {
            let error = given(&["bench", "memcached", option, value]).unwrap_err();
            assert_eq!(error.exit_status(), 2);
            assert!(error.message.contains(value), "{error}");
        }
    }

    #[test]
    fn the_native_experiment_has_options_of_its_own() {
        let words = "bench native --ops update,modify --stores engine --durability memory,sync \
                     --calls 500 --starts";
        let words: Vec<&str> = words.split_whitespace().collect();
        let options = given(&words).unwrap().native;
        assert_eq!(options.works, [native::Work::Update, native::Work::Modify]);
        assert!(options.has_store("engine") && !options.has_store("rows"));
        assert_eq!(options.durabilities, [Durability::Memory, Durability::Sync]);
        assert_eq!((options.calls, options.times_starts), (Some(500), true));
        for (option, value) in [("--ops", "fly"), ("--durability", "disk"), ("--calls", "0")] {
            let error = given(&["bench", "native", option, value]).unwrap_err();
            assert_eq!(error.exit_status(), 2);
            assert!(error.message.contains(value), "{error}");
        }
    }

    #[test]
    fn processors_are_chosen_by_role() {
        let allowed = Processors::parse("0-3").unwrap();
        let parse = |list: &str| Pinning::parse(list, &allowed);
        let pinning = parse("server=0,generator=1-2").unwrap();
        assert_eq!(pinning.words(), "servers to 0, generator to 1+2");
        assert_eq!(parse("generator=3").unwrap().server, None);
        for (list, part) in [
            ("client=0", "client"),
            ("server", "server"),
            ("server=0,generator=4", "processor 4"),
        ] {
            let error = parse(list).unwrap_err();
            assert_eq!(error.exit_status(), 2);
            assert!(error.message.contains(part), "{error}");
        }
    }

    #[test]
    fn bad_options_are_named() {
        for (option, value) in [
            ("--clients", "0"),
            ("--clients", "1,x"),
            ("--time", "fast"),
            ("--time", "3"),
            ("--shape", "round"),
            ("--ops", "fly"),
            ("--runs", "0"),
            ("--rate", "0"),
            ("--generators", "99"),
        ] {
            let error = given(&["bench", "kv", option, value]).unwrap_err();
            assert_eq!(error.exit_status(), 2);
            assert!(
                error.message.contains(value.rsplit(',').next().unwrap()),
                "{error}"
            );
        }
    }
}
