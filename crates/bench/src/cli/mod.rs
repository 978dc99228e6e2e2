//! The command line of `porpoise bench`.

mod options;

use crate::budgets::{self, Selection};
use crate::error::{Error, Result};
use crate::experiments::kv::Operation;
use crate::experiments::{
    Bench, BenchOptions, analytics, asynchronous, backup, change_log, cluster, contention, dump,
    fk, fulltext, idle, inserts, kv_runs, memcached_runs, mget, native, programs, requests,
    schema_change, sysbench, tpch,
};
use crate::machine::Machine;
use crate::noop;
use crate::output;
use crate::peers::{Durability, NOOP_SERVER, Peer, Settings, Started, shim};
use crate::progress::Progress;
use crate::report::Report;
use crate::scaling;
use crate::sys;
use crate::sys::Processors;
use crate::url::{Target, masked};
use clap::{Arg, ArgAction, ArgMatches, Command, error::ErrorKind};
use options::{
    Pinning, add_budgets_options, add_dump_options, add_fk_options, add_import_options,
    add_memcached_options, add_native_options, bench_options, common, duration, import_options,
    number, option, read_fk_options, refuse_unused, text,
};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Peers that `--start-peers` starts when it is given without a list.
const DEFAULT_PEERS: &str = "porpoise,mariadb,postgres,memcached";

/// Name and help text of each experiment.
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
        "async",
        "Native batches of rows, several in flight, beside multi-get, IN list and multi-row INSERT",
    ),
    (
        "memcached",
        "get, set, incr, delete, multi-get in all dialects, beside memcached",
    ),
    (
        "fk",
        "Inserts with 0, 1 and 2 foreign keys, many parents and one hot parent",
    ),
    ("autoinc", "Inserts with automatic and with explicit ids"),
    ("blob", "BLOB and VARBINARY columns of several lengths"),
    (
        "connections",
        "Throughput over connections, by both kinds of client",
    ),
    (
        "idle",
        "Idle connections: the server's memory and CPU time for each",
    ),
    (
        "native",
        "In this process, without network: what rows and engine can do",
    ),
    (
        "sysbench",
        "sysbench's OLTP scripts over numbers of connections",
    ),
    (
        "backup",
        "Throughput of transactions with and without a running backup",
    ),
    (
        "log",
        "UPDATE with and without the change log; starts each server twice",
    ),
    (
        "contention",
        "Transactions that lock a few rows in random order and deadlock",
    ),
    (
        "programs",
        "Procedures, cursors, functions and triggers beside plain statements",
    ),
    (
        "dump",
        "Loading a dump and text files through the client mariadb",
    ),
    (
        "import",
        "Copying a running server, compared with mariadb-dump | mariadb; the lag while following",
    ),
    (
        "analytics",
        "Groups, joins and sorts of a million rows; answers are compared",
    ),
    (
        "fulltext",
        "Text search: building an index and searching it; answers are compared",
    ),
    (
        "schema-change",
        "ALTER TABLE beside a load: longest wait of a statement, throughput before and during",
    ),
    (
        "tpch",
        "The 22 queries of TPC-H over generated data; answers are compared",
    ),
    (
        "requests",
        "Requests that statements make on a TiKV cluster; starts a double of one",
    ),
    (
        "cluster",
        "Statements on a TiKV cluster with a latency of 1 ms; starts a double of one",
    ),
    (
        "budgets",
        "The ratios to peers that have to be reached, each with its verdict; starts its servers",
    ),
    (
        "all",
        "All of these but first, requests, cluster, log, import and budgets; async, idle, memcached, sysbench, backup, contention, programs, analytics, fulltext, schema-change and tpch not with --quick",
    ),
];

/// Command line of this program, which `porpoise bench` executes.
fn command() -> Command {
    let mut bench = Command::new("porpoise-bench")
        .bin_name("porpoise bench")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Measures this system and others side by side")
        .subcommand_required(true)
        .arg_required_else_help(true);
    for (name, about) in EXPERIMENTS {
        let command = Command::new(*name).about(*about);
        let command = if *name == "fk" {
            add_fk_options(command)
        } else {
            command
        };
        let command = common(command);
        bench = bench.subcommand(match *name {
            "memcached" => add_memcached_options(command),
            "native" => add_native_options(command),
            "dump" => add_dump_options(command),
            "import" => add_import_options(command),
            "budgets" => add_budgets_options(command),
            _ => command,
        });
    }
    let noop_server = Command::new(NOOP_SERVER)
        .hide(true)
        .arg(Arg::new("address").required(true));
    let scaling = Command::new("scaling")
        .about("Simulates the throughput with more cores than this machine has")
        .arg(option("cores", "LIST", "Numbers of cores").default_value("1,2,4,8,16,32,64"))
        .arg(option("sync", "TIME", "Time of a sync of the log").default_value("45us"))
        .arg(option(
            "model",
            "FILE",
            "File with the times of steps [default: the times measured with this version]",
        ));
    let bench = bench.subcommand(noop_server).subcommand(scaling);
    bench.subcommand(
        Command::new("report")
            .about("Makes a page of one or more files of results")
            .arg(
                Arg::new("history")
                    .long("history")
                    .action(ArgAction::SetTrue)
                    .help("Draw each budget's figure over the dates of the files"),
            )
            .arg(
                Arg::new("file")
                    .value_name("FILE")
                    .required(true)
                    .num_args(1..),
            )
            .arg(option("html", "FILE", "Write the page here").default_value("bench.html")),
    )
}

/// Error message for a command line without an experiment.
const NO_EXPERIMENT: &str = "say what to measure: porpoise bench kv; try --help";

/// Runs the command; results go to standard output.
///
/// # Errors
/// An error with a one-line message; [`Error::exit_status`] is the exit status.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Result<()> {
    let matches = match command().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
            ) =>
        {
            output::print(&error.to_string());
            return Ok(());
        }
        Err(error) => {
            return Err(Error::usage(porpoise_server::cli::one_line(
                &error,
                NO_EXPERIMENT,
            )));
        }
    };
    match matches.subcommand() {
        Some(("report", given)) => merge(given),
        Some(("scaling", given)) => simulate(given),
        Some((NOOP_SERVER, given)) => noop::serve(address(given)?),
        Some((name, given)) => experiment(name, given),
        None => Err(Error::usage(NO_EXPERIMENT)),
    }
}

fn address(given: &ArgMatches) -> Result<SocketAddr> {
    let word = text(given, "address").unwrap_or_default();
    word.parse()
        .map_err(|_| Error::usage(format!("{word:?}: expected an address like 127.0.0.1:0")))
}

/// `bench scaling`.
fn simulate(given: &ArgMatches) -> Result<()> {
    let file = text(given, "model");
    let read = |path: &str| {
        let text = std::fs::read_to_string(path);
        text.map_err(|error| Error::usage(format!("{path}: {error}")))
    };
    let model = scaling::model(file.map(read).transpose()?.as_deref())?;
    let cores = text(given, "cores").unwrap_or_default().split(',');
    let cores = cores.map(|word| number("cores", word, 1, 1024).map(|n| n as usize));
    let sync = duration(given, "sync")?.unwrap_or_default();
    let cores = cores.collect::<Result<Vec<_>>>()?;
    output::print(&scaling::report(&model, &cores, sync.as_nanos() as f64));
    Ok(())
}

fn merge(given: &ArgMatches) -> Result<()> {
    let files: Vec<&String> = given.get_many("file").unwrap_or_default().collect();
    let mut reports = Vec::new();
    for file in files {
        reports.push(output::read(Path::new(file))?);
    }
    let page = text(given, "html").unwrap_or("bench.html");
    let rendered = if given.get_flag("history") {
        output::history::render(&reports)
    } else {
        output::html::render(&reports)
    };
    output::write(Path::new(page), &rendered)?;
    output::print(&format!("wrote {page}\n"));
    Ok(())
}

/// Settings of the servers that are started for measurements.
struct Setup<'a> {
    /// The peers; `None`: only the given targets.
    peers: Option<&'a str>,
    durability: Durability,
    fsync_delay: Duration,
    /// Whether Porpoise and MariaDB keep a binary log: each server is started once for each value.
    binary_log: &'a [bool],
    /// Processors of the servers and of this process, which generates the load.
    pinning: Pinning,
}

fn experiment(name: &str, given: &ArgMatches) -> Result<()> {
    sys::allow_many_files();
    sys::catch_interrupts();
    refuse_unused(name, given)?;
    if name == "budgets" {
        return budgets(given);
    }
    let setup = Setup {
        peers: text(given, "start-peers"),
        durability: Durability::parse(text(given, "durability").unwrap_or("sync"))?,
        fsync_delay: duration(given, "fsync-delay")?.unwrap_or_default(),
        binary_log: match (name, given.get_flag("log-bin")) {
            ("log" | "import", _) => &[false, true],
            (_, true) => &[true],
            (_, false) => &[false],
        },
        pinning: options::pinning(given)?,
    };
    let (report, done) = measure(name, &[name], given, &setup, &|_, _| ())?;
    output::print(&output::text::render(&report));
    write_files(name, given, &report)?;
    done
}

/// Measures the budgets phase by phase, and prints the verdicts after the results.
fn budgets(given: &ArgMatches) -> Result<()> {
    let selection = Selection::of(text(given, "only").unwrap_or_default());
    if !selection.is_known() {
        return Err(Error::usage("--only: no budget has one of these words"));
    }
    let is_quick = given.get_flag("quick");
    let pinning = options::pinning(given)?;
    let processors = Processors::allowed()?;
    let mut whole: Option<Report> = None;
    let mut verdicts = Vec::new();
    let mut outcome = Ok(());
    for phase in budgets::PHASES {
        let experiments = phase.experiments(&selection);
        if experiments.is_empty() {
            continue;
        }
        if is_quick && phase.is_long {
            verdicts.extend(phase.verdicts(&selection, &[]));
            continue;
        }
        let setup = Setup {
            peers: phase.peers,
            durability: phase.durability,
            fsync_delay: phase.fsync_delay,
            binary_log: &[false],
            // Without servers there is nothing to keep the generator away from.
            pinning: phase.peers.map(|_| pinning.clone()).unwrap_or_default(),
        };
        let restrict = |name: &str, options: &mut BenchOptions| {
            phase.restrict(name, &selection, options);
        };
        let (report, done) = measure("budgets", &experiments, given, &setup, &restrict)?;
        processors.pin_this_thread()?;
        output::print(&output::text::render(&report));
        verdicts.extend(phase.verdicts(&selection, &report.experiments));
        match &mut whole {
            None => whole = Some(report),
            Some(whole) => whole.append(report),
        }
        if sys::is_interrupted() {
            outcome = done;
            break;
        }
        outcome = outcome.and(done);
    }
    output::print("\n");
    for verdict in &verdicts {
        output::print(&format!("{}\n", verdict.line));
    }
    output::print(&format!("{}\n", budgets::summary(&verdicts)));
    if let Some(report) = whole {
        write_files("budgets", given, &report)?;
    }
    outcome
}

/// Runs the experiments of a subcommand on the given targets and on started servers. Returns the report,
/// complete or not, and the first failure.
fn measure(
    subcommand: &str,
    names: &[&str],
    given: &ArgMatches,
    setup: &Setup<'_>,
    restrict: &dyn Fn(&str, &mut BenchOptions),
) -> Result<(Report, Result<()>)> {
    let mut progress = Progress::new();
    let mut targets = targets(given)?;
    let mut options = bench_options(subcommand, given)?;
    let mut rows_per_connection = None;
    if subcommand == "fk" {
        rows_per_connection = read_fk_options(given, &mut targets, &mut options)?;
    }
    // Declared before the servers, so that it outlives them.
    let home = home(given)?;
    let (started, left_out, pinned) = start_pinned(given, home.path(), setup, &mut progress)?;
    let needs_servers = !names.iter().all(|name| WITHOUT_SERVERS.contains(name));
    if targets.is_empty() && started.is_empty() && needs_servers {
        if let Some(reason) = left_out.into_iter().next() {
            return Err(Error::failed(reason));
        }
        return Err(Error::usage(
            "nothing to measure: name targets like mysql://127.0.0.1:3306, or give --start-peers",
        ));
    }
    targets.splice(0..0, started.iter().map(|s| s.target.clone()));
    number_duplicate_names(&mut targets);
    let micros = u64::try_from(setup.fsync_delay.as_micros()).unwrap_or(u64::MAX);
    let is_fk = subcommand == "fk";
    let password = is_fk.then(|| text(given, "password")).flatten();
    let shown = command_line(std::env::args(), password);
    let mut machine = Machine::describe(home.path(), &shown, micros)?;
    machine.pinning = pinned;
    let settings: Vec<(String, String)> = started
        .iter()
        .map(|s| (s.target.name.clone(), s.settings.clone()))
        .collect();
    let mut bench = Bench::new(targets, &settings, options, progress, machine);
    bench.report.notes = left_out;
    bench.setup = Some(crate::report::Setup {
        durability: setup.durability,
        fsync_delay_micros: micros,
    });
    let sizes = import_options(subcommand, given)?;
    let porpoise = porpoise_program(given)?;
    let run_one = |bench: &mut Bench, name: &str| {
        let options = bench.options.clone();
        restrict(name, &mut bench.options);
        let done = match name {
            "dump" => dump::dump(bench, home.path(), sizes.size_mb),
            "import" => dump::import(bench, home.path(), porpoise.clone(), sizes),
            "native" => native::native(bench, home.path()),
            "requests" | "cluster" => on_cluster(name, bench, home.path(), porpoise.clone()),
            _ => dispatch(name, bench, rows_per_connection),
        };
        bench.options = options;
        done
    };
    let done = match names {
        [name] if *name != "all" => run_one(&mut bench, name),
        ["all"] => run_all(&mut bench, &run_one),
        _ => run_each(&mut bench, names, &run_one),
    };
    drop(started);
    bench.report.failure = done.as_ref().err().map(|e| e.message.clone());
    Ok((bench.report, done))
}

/// Runs an experiment on a double of a TiKV cluster.
fn on_cluster(name: &str, bench: &mut Bench, home: &Path, porpoise: PathBuf) -> Result<()> {
    match name {
        "cluster" => cluster::cluster(bench, home, porpoise),
        _ => requests::requests(bench, home, porpoise),
    }
}

/// Experiments that need no server, or start their own.
const WITHOUT_SERVERS: &[&str] = &["native", "requests", "cluster"];

/// The program that is started as Porpoise.
fn porpoise_program(given: &ArgMatches) -> Result<PathBuf> {
    Ok(match text(given, "porpoise") {
        Some(program) => PathBuf::from(program),
        None => std::env::current_exe()?.with_file_name("porpoise"),
    })
}

/// Runs the experiment with this name.
type RunOne<'a> = dyn Fn(&mut Bench, &str) -> Result<()> + 'a;

/// Experiments that `bench all --quick` skips.
const LEFT_OUT_OF_QUICK: &[&str] = &[
    "async",
    "idle",
    "memcached",
    "sysbench",
    "backup",
    "contention",
    "programs",
    "analytics",
    "fulltext",
    "schema-change",
    "tpch",
];

fn dispatch(name: &str, bench: &mut Bench, rows_per_connection: Option<u64>) -> Result<()> {
    use Operation::{Delete, Insert, Select, Update};
    let all = [Insert, Update, Select, Delete];
    let is_quick = bench.options.is_quick;
    match name {
        "kv" if is_quick => kv_runs::kv(bench, name, &[1, 8, 64], &[Select, Update, Insert]),
        "kv" => kv_runs::kv(bench, name, &[1, 2, 4, 8, 16], &all),
        "first" => kv_runs::kv(bench, name, &[1, 8, 64], &[Select, Update, Insert]),
        "mget" => mget::mget(bench),
        "async" => asynchronous::asynchronous(bench),
        "memcached" => {
            let options = bench.options.memcached.clone();
            memcached_runs::memcached(bench, &options)
        }
        "fk" => fk::fk(bench, rows_per_connection),
        "autoinc" => inserts::autoinc(bench),
        "idle" => idle::idle(bench),
        "blob" => inserts::blob(bench),
        "sysbench" => sysbench::sysbench(bench),
        "backup" => backup::backup(bench),
        "log" => change_log::log(bench),
        "contention" => contention::contention(bench),
        "programs" => programs::programs(bench),
        "analytics" => analytics::analytics(bench),
        "fulltext" => fulltext::fulltext(bench),
        "schema-change" => schema_change::schema_change(bench),
        "tpch" => tpch::tpch(bench),
        "connections" if is_quick => kv_runs::connections(bench, &[8, 64, 512]),
        "connections" => kv_runs::connections(bench, &[1, 8, 64, 256, 512]),
        _ => Err(Error::usage(format!("{name}: no such experiment"))),
    }
}

/// Runs all experiments but `first`.
fn run_all(bench: &mut Bench, run_one: &RunOne<'_>) -> Result<()> {
    let mut names = vec![
        "kv",
        "mget",
        "async",
        "memcached",
        "fk",
        "autoinc",
        "blob",
        "connections",
        "idle",
        "native",
        "sysbench",
        "backup",
        "contention",
        "programs",
        "dump",
        "analytics",
        "fulltext",
        "schema-change",
        "tpch",
    ];
    if bench.options.is_quick {
        // Shorter runs and smaller tables than --quick alone, to stay below five minutes.
        let options = &mut bench.options;
        options.effort.time = options.effort.time.min(Duration::from_millis(250));
        options.effort.warm_up = options.effort.warm_up.min(Duration::from_millis(80));
        if options.rows == 0 {
            options.rows = 40_000;
        }
        names.retain(|name| !LEFT_OUT_OF_QUICK.contains(name));
    }
    run_each(bench, &names, run_one)
}

/// Runs experiments one after the other. After a failure the next one runs, unless the program was
/// interrupted (Ctrl-C); the first failure is returned.
fn run_each(bench: &mut Bench, names: &[&str], run_one: &RunOne<'_>) -> Result<()> {
    let mut failure = None;
    for name in names {
        let done = match *name {
            "kv" if bench.options.is_quick => {
                use Operation::{Insert, Select, Update};
                kv_runs::kv(bench, name, &[8, 64], &[Select, Update, Insert])
            }
            "connections" if bench.options.is_quick => kv_runs::connections(bench, &[8, 64]),
            "async" if bench.targets.iter().all(|target| target.native_port == 0) => continue,
            _ => run_one(bench, name),
        };
        if let Err(error) = done {
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

/// Writes the requested files. Results that are written to a directory get the name
/// `DATE-EXPERIMENT.json` there.
fn write_files(name: &str, given: &ArgMatches, report: &Report) -> Result<()> {
    if let Some(path) = text(given, "json") {
        let mut path = PathBuf::from(path);
        if path.is_dir() {
            let day = crate::machine::day(report.machine.time);
            path.push(format!("{day}-{name}.json"));
        }
        output::write(&path, &output::to_json(report)?)?;
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

/// Creates the temporary directory of started servers and in-process stores.
fn home(given: &ArgMatches) -> Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("porpoise-bench-");
    let made = match text(given, "dir") {
        Some(place) => builder.tempdir_in(place),
        None => builder.tempdir(),
    };
    let home = made.map_err(|e| Error::failed(format!("a directory for servers: {e}")))?;
    // PostgreSQL runs as another user, who needs to traverse this directory.
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(home.path(), permissions)?;
    Ok(home)
}

/// The servers that are named by URLs.
fn targets(given: &ArgMatches) -> Result<Vec<Target>> {
    let urls = given.get_many::<String>("target").unwrap_or_default();
    urls.map(|url| Target::parse(url)).collect()
}

/// Starts the peers, and pins them and this process as `--pin` says. Returns the servers, remarks, and a
/// description of the pinning.
fn start_pinned(
    given: &ArgMatches,
    home: &Path,
    setup: &Setup<'_>,
    progress: &mut Progress,
) -> Result<(Vec<Started>, Vec<String>, String)> {
    let pinning = &setup.pinning;
    if pinning.server.is_some() && setup.peers.is_none() {
        return Err(Error::usage(
            "--pin server=: only servers that --start-peers starts are pinned",
        ));
    }
    // The count of all processors, before this process is pinned to some of them.
    sys::cores();
    let (started, left_out) = start_peers(given, home, setup, progress)?;
    if let Some(processors) = &pinning.generator {
        processors.pin_this_thread()?;
    }
    Ok((started, left_out, pinning.words()))
}

fn start_peers(
    given: &ArgMatches,
    home: &Path,
    setup: &Setup<'_>,
    progress: &mut Progress,
) -> Result<(Vec<Started>, Vec<String>)> {
    let Some(list) = setup.peers else {
        if !setup.fsync_delay.is_zero() {
            return Err(Error::usage(
                "--fsync-delay is for servers that --start-peers starts",
            ));
        }
        return Ok((Vec::new(), Vec::new()));
    };
    let peers = list
        .split(',')
        .map(Peer::parse)
        .collect::<Result<Vec<_>>>()?;
    let preload = if setup.fsync_delay.is_zero() {
        None
    } else {
        Some(shim::build(home, setup.fsync_delay)?)
    };
    let mut settings = Settings {
        durability: setup.durability,
        directory: home.to_owned(),
        porpoise: porpoise_program(given)?,
        preload,
        binary_log: false,
        processors: setup.pinning.server.clone(),
    };
    let mut started = Vec::new();
    let mut left_out = Vec::new();
    let is_twice = setup.binary_log.len() > 1;
    let with_and_without = |peer| setup.binary_log.iter().map(move |has_log| (peer, *has_log));
    let starts = peers
        .iter()
        .filter(|peer| !is_twice || matches!(peer, Peer::Porpoise | Peer::Mariadb))
        .flat_map(with_and_without);
    for (peer, has_log) in starts {
        progress.say(&format!("starting {}", peer.word()));
        settings.binary_log = has_log;
        let reason = match peer.start(&settings) {
            Ok(Some(mut server)) => {
                if has_log && is_twice {
                    server.target.name.push_str(change_log::WITH_LOG);
                }
                started.push(server);
                continue;
            }
            Ok(None) => "it is not installed".to_owned(),
            Err(error) => error.message,
        };
        let note = format!("{} left out: {reason}", peer.word());
        progress.say(&format!("   {note}"));
        left_out.push(note);
    }
    Ok((started, left_out))
}

/// Numbers targets with the same name.
fn number_duplicate_names(targets: &mut [Target]) {
    let mut seen = std::collections::HashMap::new();
    for target in targets {
        let count: &mut u32 = seen.entry(target.name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            target.name = format!("{} {count}", target.name);
        }
    }
}

/// The command for reports, without passwords: neither those in URLs nor that
/// of `fk`'s `-p`.
fn command_line(arguments: impl Iterator<Item = String>, password: Option<&str>) -> String {
    let mut words = vec!["porpoise bench".to_owned()];
    let mut is_password = false;
    for word in arguments.skip(1) {
        let shown = match password {
            Some(_) if is_password => "***".to_owned(),
            // `-pWORD` and `-p=WORD`.
            Some(password)
                if word
                    .strip_prefix("-p")
                    .is_some_and(|rest| rest.strip_prefix('=').unwrap_or(rest) == password) =>
            {
                "-p***".to_owned()
            }
            _ => masked(&word),
        };
        is_password = word == "-p";
        words.push(shown);
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_shown_without_passwords() {
        let shown =
            |line: &str, password| command_line(line.split(' ').map(str::to_owned), password);
        assert_eq!(
            shown(
                "/usr/bin/porpoise-bench kv mysql://a:s3@h/d?name=n --rows 9",
                None
            ),
            "porpoise bench kv mysql://a:***@h/d?name=n --rows 9"
        );
        for (given, told) in [("-p s3", "-p ***"), ("-ps3", "-p***"), ("-p=s3", "-p***")] {
            assert_eq!(
                shown(&format!("porpoise-bench fk -h db {given} -t 4"), Some("s3")),
                format!("porpoise bench fk -h db {told} -t 4")
            );
        }
        assert_eq!(
            shown("porpoise-bench kv -px", None),
            "porpoise bench kv -px"
        );
    }

    #[test]
    fn complaints_are_one_line_with_status_2() {
        for words in [
            &[][..],
            &["flight"],
            &["kv", "--colour", "blue"],
            &["noop-server", "nowhere"],
        ] {
            let words = std::iter::once(&"porpoise-bench").chain(words);
            let error = run(words.map(OsString::from)).unwrap_err();
            assert_eq!(error.exit_status(), 2, "{error}");
            assert!(error.message.contains("try --help") || error.message.contains("nowhere"));
        }
    }

    #[test]
    fn targets_of_one_name_are_told_apart() {
        let mut targets = vec![
            Target::parse("mysql://a").unwrap(),
            Target::parse("mysql://b").unwrap(),
        ];
        number_duplicate_names(&mut targets);
        assert_eq!(targets[1].name, "MySQL 2");
    }
}
