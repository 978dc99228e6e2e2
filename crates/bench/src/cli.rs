//! The command line of `porpoise bench`.

use crate::error::{Error, Result};
use crate::experiments::kv::Operation;
use crate::experiments::{Bench, Choice, fk, inserts, kv_runs, mget};
use crate::load::Shape;
use crate::machine::Machine;
use crate::matrix::Effort;
use crate::output;
use crate::peers::{Durability, Peer, Settings, Started, shim};
use crate::progress::Progress;
use crate::sys;
use crate::url::Target;
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is started where the option names nothing.
const USUAL_PEERS: &str = "porpoise,mariadb,postgres,memcached";

/// Experiments with a sentence on each.
const EXPERIMENTS: &[(&str, &str)] = &[
    (
        "kv",
        "INSERT, UPDATE, SELECT, DELETE by primary key over numbers of clients",
    ),
    (
        "first",
        "SELECT, UPDATE, INSERT at 1, 8 and 64 clients: first figures",
    ),
    (
        "mget",
        "Latency over the number of keys of a request: multi-get and IN list",
    ),
    (
        "fk",
        "Inserts with 0, 1 and 2 foreign keys, many parents and one hot parent",
    ),
    ("autoinc", "Inserts with automatic and with explicit ids"),
    ("blob", "BLOB and VARBINARY columns of several lengths"),
    (
        "connections",
        "Throughput over connections, by both shapes of client",
    ),
    ("all", "All of these"),
];

/// The subcommand, to be hung into a program's command line.
pub fn command() -> Command {
    let mut bench = Command::new("bench")
        .about("Measures this system and others side by side")
        .subcommand_required(true)
        .arg_required_else_help(true);
    for (name, about) in EXPERIMENTS {
        let command = Command::new(*name).about(*about);
        let command = if *name == "fk" {
            published(command)
        } else {
            command
        };
        bench = bench.subcommand(common(command));
    }
    bench.subcommand(
        Command::new("report")
            .about("Makes a page of one or more files of results")
            .arg(
                Arg::new("file")
                    .value_name("FILE")
                    .required(true)
                    .num_args(1..),
            )
            .arg(option("html", "FILE", "Write the page here").default_value("bench.html")),
    )
}

fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

/// Options of the published experiment's tool.
fn published(command: Command) -> Command {
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

/// Options that all experiments have.
fn common(command: Command) -> Command {
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
                .default_missing_value(USUAL_PEERS),
        )
        .arg(option("durability", "MODE", "Of started servers: sync, interval, memory").default_value("sync"))
        .arg(option("fsync-delay", "TIME", "Add this to every fsync of started servers, like 1ms"))
        .arg(option("dir", "DIR", "Where started servers keep their files"))
        .arg(option("runs", "N", "Rounds of runs [default: 3]"))
        .arg(option("time", "TIME", "Length of a run [default: 3s]"))
        .arg(option("warm-up", "TIME", "Before each run [default: 1s]"))
        .arg(option("clients", "LIST", "Numbers of clients, like 1,8,64"))
        .arg(option("shape", "SHAPE", "thread (one for each connection), or a number of multiplexing threads"))
        .arg(option("ops", "LIST", "insert, update, select, delete, mix"))
        .arg(option("rows", "N", "Rows of the table"))
        .arg(option("seed", "N", "Seed of all keys").default_value("1"))
        .arg(
            Arg::new("quick")
                .long("quick")
                .action(ArgAction::SetTrue)
                .help("Shorter and fewer runs"),
        )
        .arg(option("json", "FILE", "Write results here"))
        .arg(option("csv", "FILE", "Write a line for each run here"))
        .arg(option("html", "FILE", "Write a page with charts here"))
}

/// Runs what the command line says; results go to standard output.
///
/// # Errors
/// One line; its status is [`Error::exit_status`].
pub fn run(matches: &ArgMatches) -> Result<()> {
    match matches.subcommand() {
        Some(("report", given)) => merge(given),
        Some((name, given)) => experiment(name, given),
        None => Err(Error::usage(
            "say what to measure: porpoise bench kv; try --help",
        )),
    }
}

fn merge(given: &ArgMatches) -> Result<()> {
    let files: Vec<&String> = given.get_many("file").unwrap_or_default().collect();
    let mut reports = Vec::new();
    for file in files {
        reports.push(output::read(Path::new(file))?);
    }
    let page = text(given, "html").unwrap_or("bench.html");
    output::write(Path::new(page), &output::html::render(&reports))?;
    println!("wrote {page}");
    Ok(())
}

fn experiment(name: &str, given: &ArgMatches) -> Result<()> {
    sys::allow_many_files();
    sys::catch_interrupts();
    let choice = choice(given)?;
    let mut progress = Progress::new();
    let mut targets = given
        .get_many::<String>("target")
        .unwrap_or_default()
        .map(|url| Target::parse(url))
        .collect::<Result<Vec<_>>>()?;
    let mut choice = choice;
    let mut limit = None;
    if name == "fk" {
        limit = published_options(given, &mut targets, &mut choice)?;
    }
    // Declared before the servers, so that it outlives them.
    let home = home(given)?;
    let delay = duration(given, "fsync-delay")?.unwrap_or_default();
    let started = start_peers(given, home.path(), delay, &mut progress)?;
    if targets.is_empty() && started.is_empty() {
        return Err(Error::usage(
            "nothing to measure: name targets like mysql://127.0.0.1:3306, or give --start-peers",
        ));
    }
    targets.splice(0..0, started.iter().map(|s| s.target.clone()));
    tell_apart(&mut targets);
    let micros = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
    let machine = Machine::look(home.path(), &command_line(), micros)?;
    let settings: Vec<(String, String)> = started
        .iter()
        .map(|s| (s.target.name.clone(), s.settings.clone()))
        .collect();
    let mut bench = Bench::new(targets, &settings, choice, progress, machine);
    let done = dispatch(name, &mut bench, limit);
    drop(started);
    bench.report.failure = done.as_ref().err().map(|e| e.message.clone());
    print!("{}", output::text::render(&bench.report));
    write_files(given, &bench)?;
    done
}

/// Reads the options of the published tool; the rows for each connection.
fn published_options(
    given: &ArgMatches,
    targets: &mut Vec<Target>,
    choice: &mut Choice,
) -> Result<Option<u64>> {
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
        choice.clients = vec![number("t", threads, 1, 20_000)? as usize];
    }
    let loops = text(given, "loops");
    loops.map(|l| number("l", l, 1, 1_000_000_000)).transpose()
}

fn dispatch(name: &str, bench: &mut Bench, limit: Option<u64>) -> Result<()> {
    use Operation::{Delete, Insert, Select, Update};
    let all = [Insert, Update, Select, Delete];
    let is_quick = bench.choice.is_quick;
    match name {
        "kv" if is_quick => kv_runs::kv(bench, &[1, 8, 64], &[Select, Update, Insert]),
        "kv" => kv_runs::kv(bench, &[1, 2, 4, 8, 16], &all),
        "first" => kv_runs::kv(bench, &[1, 8, 64], &[Select, Update, Insert]),
        "mget" => mget::mget(bench),
        "fk" => fk::fk(bench, limit),
        "autoinc" => inserts::autoinc(bench),
        "blob" => inserts::blob(bench),
        "all" => all_of_them(bench),
        "connections" if is_quick => kv_runs::connections(bench, &[8, 64, 512]),
        "connections" => kv_runs::connections(bench, &[1, 8, 64, 256, 512]),
        _ => Err(Error::usage(format!("{name}: no such experiment"))),
    }
}

/// All experiments; one that fails for a reason of its own does not keep the
/// others from being run.
fn all_of_them(bench: &mut Bench) -> Result<()> {
    let mut failure = None;
    for name in ["kv", "mget", "fk", "autoinc", "blob", "connections"] {
        if let Err(error) = dispatch(name, bench, None) {
            bench.progress.say(&format!("   {name}: {error}"));
            let is_over = sys::is_interrupted();
            failure.get_or_insert(error.during(name));
            if is_over {
                break;
            }
        }
    }
    failure.map_or(Ok(()), Err)
}

fn write_files(given: &ArgMatches, bench: &Bench) -> Result<()> {
    let report = &bench.report;
    if let Some(path) = text(given, "json") {
        output::write(Path::new(path), &output::to_json(report)?)?;
    }
    if let Some(path) = text(given, "csv") {
        output::write(Path::new(path), &output::csv::render(report))?;
    }
    if let Some(path) = text(given, "html") {
        let page = output::html::render(std::slice::from_ref(report));
        output::write(Path::new(path), &page)?;
    }
    Ok(())
}

/// A directory for everything that is started.
fn home(given: &ArgMatches) -> Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("porpoise-bench-");
    let made = match text(given, "dir") {
        Some(place) => builder.tempdir_in(place),
        None => builder.tempdir(),
    };
    let home = made.map_err(|e| Error::failed(format!("a directory for servers: {e}")))?;
    // PostgreSQL runs as another user and must be able to pass through.
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(home.path(), permissions)?;
    Ok(home)
}

fn start_peers(
    given: &ArgMatches,
    home: &Path,
    delay: Duration,
    progress: &mut Progress,
) -> Result<Vec<Started>> {
    let Some(list) = text(given, "start-peers") else {
        if !delay.is_zero() {
            return Err(Error::usage(
                "--fsync-delay is for servers that --start-peers starts",
            ));
        }
        return Ok(Vec::new());
    };
    let peers = list
        .split(',')
        .map(Peer::parse)
        .collect::<Result<Vec<_>>>()?;
    let preload = if delay.is_zero() {
        None
    } else {
        Some(shim::build(home, delay)?)
    };
    let settings = Settings {
        durability: Durability::parse(text(given, "durability").unwrap_or("sync"))?,
        directory: home.to_owned(),
        porpoise: std::env::var_os("PORPOISE_BENCH_SERVER")
            .map_or_else(std::env::current_exe, |path| Ok(PathBuf::from(path)))?,
        preload,
    };
    let mut started = Vec::new();
    for peer in peers {
        progress.say(&format!("starting {peer:?}"));
        match peer.start(&settings) {
            Ok(Some(server)) => started.push(server),
            Ok(None) => progress.say(&format!("   {peer:?} is not installed and left out")),
            Err(error) => progress.say(&format!("   {peer:?} left out: {error}")),
        }
    }
    Ok(started)
}

/// Gives targets of one name numbers.
fn tell_apart(targets: &mut [Target]) {
    let mut seen = std::collections::HashMap::new();
    for target in targets {
        let count: &mut u32 = seen.entry(target.name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            target.name = format!("{} {count}", target.name);
        }
    }
}

/// The command for reports, without passwords.
fn command_line() -> String {
    let words = std::env::args().enumerate().map(|(i, word)| {
        if i == 0 {
            return "porpoise".to_owned();
        }
        match Target::parse(&word) {
            Ok(target) if !target.password.is_empty() => target.shown(),
            _ => word,
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

fn choice(given: &ArgMatches) -> Result<Choice> {
    let is_quick = given.get_flag("quick");
    let (rounds, time, warm_up) = if is_quick {
        (2, Duration::from_millis(1000), Duration::from_millis(300))
    } else {
        (3, Duration::from_secs(3), Duration::from_secs(1))
    };
    let operations = match text(given, "ops") {
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
    Ok(Choice {
        effort: Effort {
            rounds: number_or(given, "runs", rounds, 1, 1000)? as usize,
            warm_up: duration(given, "warm-up")?.unwrap_or(warm_up),
            time: duration(given, "time")?.unwrap_or(time),
            count_futexes: false,
        },
        clients,
        shape: match text(given, "shape") {
            None | Some("thread") => Shape::ThreadEach,
            Some(word) => Shape::Multiplexed(number("shape", word, 1, 256)? as usize),
        },
        operations,
        rows: number_or(given, "rows", 0, 100, 100_000_000)?,
        seed: number_or(given, "seed", 1, 0, u64::MAX)?,
        is_quick,
    })
}

fn text<'a>(given: &'a ArgMatches, name: &str) -> Option<&'a str> {
    given.get_one::<String>(name).map(String::as_str)
}

fn number(name: &str, word: &str, low: u64, high: u64) -> Result<u64> {
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
fn duration(given: &ArgMatches, name: &str) -> Result<Option<Duration>> {
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
        let (mut targets, mut choice) = (Vec::new(), choice(given).unwrap());
        let limit = published_options(given, &mut targets, &mut choice).unwrap();
        assert_eq!((limit, choice.clients), (Some(99), vec![4]));
        assert_eq!(targets[0].port, 3307);
        assert_eq!(
            (targets[0].user.as_str(), targets[0].password.as_str()),
            ("joe", "s")
        );
    }

    fn given(words: &[&str]) -> Result<Choice> {
        let matches = command().try_get_matches_from(words).unwrap();
        choice(matches.subcommand().unwrap().1)
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
        ];
        let choice = given(&words).unwrap();
        assert_eq!(choice.clients, [1, 8, 64]);
        assert_eq!(choice.effort.time, Duration::from_millis(250));
        assert_eq!(choice.shape, Shape::Multiplexed(2));
        assert_eq!(choice.operations, [Operation::Select, Operation::Update]);
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
        ] {
            let error = given(&["bench", "kv", option, value]).unwrap_err();
            assert_eq!(error.exit_status(), 2);
            assert!(
                error.message.contains(value.rsplit(',').next().unwrap()),
                "{error}"
            );
        }
    }

    #[test]
    fn targets_of_one_name_are_told_apart() {
        let mut targets = vec![
            Target::parse("mysql://a").unwrap(),
            Target::parse("mysql://b").unwrap(),
        ];
        tell_apart(&mut targets);
        assert_eq!(targets[1].name, "MySQL 2");
    }
}
