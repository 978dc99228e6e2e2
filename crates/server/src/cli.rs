//! The command line, generated from the table of settings.

use crate::backup::command::{BackupOptions, RestoreOptions};
use crate::cluster::ClusterCommand;
use crate::config::{self, ClusterUrl, Config, StartError, Values, report, table::SETTINGS};
use crate::copy::Place;
use crate::demo;
use crate::failover::witness::WitnessOptions;
use crate::import::{self, Existing, ImportOptions, Selection};
use crate::standby::promote::PromoteOptions;
use crate::target;
use clap::{
    Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, Subcommand, error::ErrorKind,
};
use porpoise_shell::{TlsArgs, mc, sql};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

/// Command of the command line.
#[derive(Debug)]
pub enum CliCommand {
    /// Run the server.
    Serve(Box<Config>),
    /// Verify the configuration.
    CheckConfig(Box<Config>),
    /// Check the store in this data directory.
    Check(PathBuf),
    /// Check the data in this cluster.
    CheckCluster(Box<ClusterUrl>),
    /// Print the files of the store in this data directory.
    Dump(PathBuf),
    /// Copy what is readable from a data directory into a new one, or into a file.
    Salvage(PathBuf, PathBuf),
    /// Copy a whole database to or from a cluster.
    Copy(Place, Place),
    /// Make, list or verify backups.
    Backup(Box<BackupOptions>),
    /// Promote a standby.
    Promote(Box<PromoteOptions>),
    /// Run a member of a group that only votes.
    Witness(Box<WitnessOptions>),
    /// Build a data directory from a backup.
    Restore(Box<RestoreOptions>),
    /// Load a dump into a server.
    Import(Box<ImportOptions>),
    /// Run the shell for SQL.
    Sql(Box<sql::Options>),
    /// Run the shell for memcached commands.
    Mc(Box<mc::Options>),
    /// Run a server in memory with example data, and a shell.
    Demo(demo::Options),
    /// Describe, generate or demonstrate a cluster.
    Cluster(ClusterCommand),
    /// Replace this process by the benchmark program, with these arguments.
    Bench(Vec<OsString>),
    /// Write the manual pages into this directory.
    Manual(PathBuf),
    /// Print this text and exit.
    Print(String),
}

fn serve_command() -> Command {
    let command = Command::new("serve").about("Runs the server");
    with_settings(command)
}

fn config_command() -> Command {
    let show =
        Command::new("show").about("Prints the effective settings, and where each comes from");
    let check = Command::new("check").about("Verifies the settings without starting a server");
    let reference = Command::new("reference")
        .about("Prints the reference of settings and system variables, in Markdown");
    Command::new("config")
        .about("Shows and verifies the configuration of `porpoise serve`")
        .subcommand_required(true)
        .subcommand(with_settings(show))
        .subcommand(with_settings(check))
        .subcommand(reference)
}

/// Adds the options of all settings.
fn with_settings(command: Command) -> Command {
    let mut command = command
        .args_override_self(true)
        .after_help(
            "Every option can also be set in the file (max_connections = 500) and as a variable \
             (PORPOISE_MAX_CONNECTIONS=500). The command line beats the variable, the variable \
             the file. PORPOISE_ROOT_PASSWORD sets root's password at first start.",
        )
        .arg(
            Arg::new("config")
                .long("config")
                .value_name("FILE")
                .help("TOML file with settings [env: PORPOISE_CONFIG]"),
        );
    for setting in SETTINGS {
        let mut help = setting.help.to_owned();
        if !setting.default.is_empty() && !setting.value.is_empty() {
            help.push_str(&format!(" [default: {}]", setting.default));
        }
        let mut arg = Arg::new(setting.name).long(setting.name).help(help);
        arg = if setting.value.is_empty() {
            arg.action(ArgAction::SetTrue)
        } else {
            arg.value_name(setting.value).allow_hyphen_values(true)
        };
        command = command.arg(arg);
    }
    command
}

fn check_command() -> Command {
    Command::new("check")
        .about("Checks files, rows, index entries, constraints and counters of a data directory or a cluster")
        .after_help(
            "Nothing is written: recovery runs in memory. Exit status 0: no problems; 1: problems, \
             a line each, missing and damaged files of a store among them; 2: the directory \
             cannot be checked: it holds no store, a server uses it, or its files cannot be read.",
        )
        .arg(
            Arg::new("data-dir")
                .long("data-dir")
                .value_name("DIR")
                .help("Data directory of a stopped server")
                .default_value("porpoise-data")
                .value_parser(clap::value_parser!(PathBuf)),
        )
        .arg(
            Arg::new("engine")
                .long("engine")
                .value_name("ENGINE")
                .help("Check a TiKV cluster instead, also while servers use it: tikv://HOST:PORT,...")
                .conflicts_with_all(["data-dir", "dump"]),
        )
        .arg(
            Arg::new("dump")
                .long("dump")
                .help(
                    "Print the groups, records and blocks of the store's files instead of checking",
                )
                .action(ArgAction::SetTrue),
        )
}

fn salvage_command() -> Command {
    let path = |name: &'static str, value: &'static str, help: &'static str| {
        let arg = Arg::new(name).long(name).value_name(value).help(help);
        arg.required(true)
            .value_parser(clap::value_parser!(PathBuf))
    };
    Command::new("salvage")
        .about("Copies every readable row out of a damaged data directory, and lists what is lost")
        .after_help(
            "Nothing is written to the source. The rows are held in memory while they are copied. Foreign \
             keys are not checked: run `porpoise check` on the result. Exit status 0: nothing is known to \
             be lost; 1: losses are listed, a line each; 2: nothing was done.",
        )
        .arg(path("from", "DIR", "Data directory of a stopped server"))
        .arg(path("into", "NEW", "New data directory, or a new file whose name ends in .sql"))
}

fn copy_command() -> Command {
    let place = |name: &'static str, help: &'static str| {
        let arg = Arg::new(name).long(name).value_name("PLACE").help(help);
        arg.required(true)
    };
    Command::new("copy")
        .about("Copies a whole database from a data directory to a TiKV cluster, or back")
        .after_help(
            "A PLACE is a data directory, or tikv://HOST:PORT,...?OPTION=VALUE as in --engine. No server may use either. The \
             source is not changed. The target is a directory that does not exist, or a cluster (a tenant of one) without \
             data; a copy that was interrupted is begun again by the same command. Tables, rows, views, programs, accounts \
             and persisted settings are copied, files beside the store are not: certificates, binary logs. Exit status 0: \
             everything is copied; 1: it is not, the reasons are listed; 2: nothing was done.",
        )
        .arg(place("from", "Place that is read"))
        .arg(place("to", "Place that is written"))
}

fn import_command() -> Command {
    let command = Command::new("import")
        .about("Loads a running MySQL or MariaDB server, or a dump by MySQL Shell, into a server")
        .after_help(
            "The password is taken from the URL or from PORPOISE_PASSWORD, that of SOURCE from its URL or from \
             PORPOISE_SOURCE_PASSWORD. The server must accept files of clients: SET GLOBAL local_infile = ON. The same \
             command continues an import that was interrupted; its progress is kept in the server, in the schema \
             porpoise_import.",
        )
        .arg(
            Arg::new("source")
                .value_name("SOURCE")
                .help("Running server that is copied, mysql://USER:PASSWORD@HOST:PORT")
                .required_unless_present("dump")
                .conflicts_with("dump"),
        )
        .arg(
            Arg::new("dump")
                .long("dump")
                .value_name("DIR")
                .help("Directory of the dump; files as they are, or compressed by zstd or gzip")
                .value_parser(clap::value_parser!(PathBuf)),
        )
        .arg(
            Arg::new("into")
                .long("into")
                .value_name("SERVER")
                .help("HOST:PORT, or mysql://USER:PASSWORD@HOST:PORT")
                .required(true),
        )
        .arg(
            Arg::new("threads")
                .long("threads")
                .value_name("N")
                .help("Connections that load rows")
                .default_value("4")
                .value_parser(clap::value_parser!(usize)),
        )
        .arg(
            Arg::new("chunk-kib")
                .long("chunk-kib")
                .value_name("N")
                .help("KiB of SOURCE's rows that one transaction loads, approximately")
                .default_value("2048")
                .value_parser(clap::value_parser!(u32).range(1..=65_536)),
        )
        .arg(
            Arg::new("existing")
                .long("existing")
                .value_name("WHAT")
                .help(
                    "What happens if tables or accounts of the dump exist: load nothing, keep them, \
                     drop them",
                )
                .default_value("refuse")
                .value_parser(["refuse", "keep", "drop"]),
        );
    let command = IMPORT_FLAGS.iter().fold(command, |command, (name, help)| {
        let flag = Arg::new(*name).long(*name).help(*help);
        command.arg(flag.action(ArgAction::SetTrue))
    });
    let command = IMPORT_LISTS.iter().fold(command, |command, (name, help)| {
        let list = Arg::new(*name).long(*name).help(*help).value_name("NAMES");
        command.arg(list.value_delimiter(',').action(ArgAction::Append))
    });
    TlsArgs::augment_args(command)
}

/// Flags of `import`.
const IMPORT_FLAGS: &[(&str, &str)] = &[
    (
        "users",
        "Create the accounts of SOURCE, or of the dump (@.users.sql), too",
    ),
    (
        "restart",
        "Discard the progress of an interrupted import and begin again",
    ),
    ("quiet", "Report no progress"),
    ("follow", "Follow SOURCE after the copy, and report the lag"),
    (
        "cut-over",
        "Cut over: end following once everything of SOURCE, which must be read-only, is applied",
    ),
    (
        "leave-out",
        "Skip the objects of SOURCE that cannot be moved, and load the others",
    ),
    (
        "dry-run",
        "Only report which objects of SOURCE cannot be moved",
    ),
];

/// Options of `import` that list names, separated by commas.
const IMPORT_LISTS: &[(&str, &str)] = &[
    ("include-schemas", "Load these schemas only"),
    ("exclude-schemas", "Leave these schemas out"),
    (
        "include-tables",
        "Load these tables and views (SCHEMA.TABLE) only",
    ),
    (
        "exclude-tables",
        "Leave these tables and views (SCHEMA.TABLE) out",
    ),
    ("exclude-users", "Leave these accounts (USER@HOST) out"),
];

fn import_options(
    given: &ArgMatches,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<ImportOptions, StartError> {
    let text = |name: &str| given.get_one::<String>(name).map_or("", String::as_str);
    let tls = options::<TlsArgs>(given)?.options();
    let live = match given.get_one::<String>("source") {
        None => None,
        Some(source) => Some(import::Live {
            source: target::parse(
                import::FROM,
                source,
                variable("PORPOISE_SOURCE_PASSWORD"),
                tls.clone(),
            )?,
            follow: given.get_flag("follow"),
            cut_over: given.get_flag("cut-over"),
            leave_out: given.get_flag("leave-out"),
            dry_run: given.get_flag("dry-run"),
            chunk_bytes: given
                .get_one::<u32>("chunk-kib")
                .map_or(2 << 20, |kib| *kib as usize * 1024),
        }),
    };
    Ok(ImportOptions {
        live,
        dump: given
            .get_one::<PathBuf>("dump")
            .cloned()
            .unwrap_or_default(),
        into: target::parse(
            import::INTO,
            text("into"),
            variable("PORPOISE_PASSWORD"),
            tls,
        )?,
        threads: given.get_one::<usize>("threads").copied().unwrap_or(1),
        existing: match text("existing") {
            "keep" => Existing::Keep,
            "drop" => Existing::Drop,
            _ => Existing::Refuse,
        },
        selection: import_selection(given)?,
        users: given.get_flag("users"),
        restart: given.get_flag("restart"),
        quiet: given.get_flag("quiet"),
    })
}

fn import_selection(given: &ArgMatches) -> Result<Selection, StartError> {
    let names = |option: &str| {
        let names = given.get_many::<String>(option).unwrap_or_default();
        names.cloned().collect::<Vec<_>>()
    };
    let tables = |option: &str| {
        let tables = names(option).into_iter().map(|name| {
            import::table_name(&name)
                .map_err(|error| StartError::usage(format!("--{option}: {error}")))
        });
        tables.collect::<Result<BTreeSet<_>, _>>()
    };
    let accounts = names("exclude-users").into_iter().map(|name| {
        let malformed = || StartError::usage(format!("--exclude-users: {name:?} is not USER@HOST"));
        import::account_name(&name).ok_or_else(malformed)
    });
    Ok(Selection {
        include_schemas: names("include-schemas").into_iter().collect(),
        exclude_schemas: names("exclude-schemas").into_iter().collect(),
        include_tables: tables("include-tables")?,
        exclude_tables: tables("exclude-tables")?,
        exclude_users: accounts.collect::<Result<_, _>>()?,
    })
}

/// The `bench` subcommand: all arguments after it are passed to the benchmark program, `--help`
/// too.
fn bench_command() -> Command {
    Command::new("bench")
        .about("Measures this system and others side by side (the program porpoise-bench)")
        .disable_help_flag(true)
        .arg(
            Arg::new("arguments")
                .num_args(0..)
                .trailing_var_arg(true)
                .allow_hyphen_values(true)
                .value_parser(clap::value_parser!(OsString)),
        )
}

fn sql_command() -> Command {
    let command = Command::new("sql")
        .disable_help_flag(true)
        .after_help(
            "Without -e, statements are read from the terminal or from standard input. The password is \
             asked for (-p), read from a file, or taken from PORPOISE_SHELL_PASSWORD. Exit status 1: a \
             statement failed, 2: a wrong option. \\? in the shell lists its commands. The history is in \
             $XDG_STATE_HOME/porpoise; statements that may hold passwords are not recorded.",
        );
    // After the options, whose own documentation would take its place.
    sql::Options::augment_args(command).about("A shell for SQL, over the MySQL protocol")
}

fn mc_command() -> Command {
    let command = Command::new("mc")
        .disable_help_flag(true)
        .after_help(
            "porpoise mc get KEY; porpoise mc set KEY VALUE. Without a command, commands are read from the \
             terminal or from standard input, one a line; `help` lists them. Exit status 1: a command \
             failed, 2: a wrong option.",
        );
    mc::Options::augment_args(command).about("A shell for memcached commands")
}

fn backup_command() -> Command {
    let command = Command::new("backup")
        .about("Backs up a running server; lists and verifies backups")
        .after_help(
            "The server writes the backup itself, to a place below its --backup-to; the account needs \
             BACKUP_ADMIN. Backups after the first are incremental. The password is taken from the URL or \
             from PORPOISE_PASSWORD. Exit status 1: the backup failed, or one is damaged.",
        );
    BackupOptions::augment_args(command)
}

fn promote_command() -> Command {
    let command = Command::new("promote")
        .about("Promotes a standby: it takes over from its source")
        .after_help(
            "With --primary no commit is lost: it refuses writes, and the standby applies what it lacks first. Without, the \
             standby takes over with what it has: with --replication-ack on the source, every acknowledged commit. \
             The accounts need SUPER; passwords are taken from the URLs or from PORPOISE_PASSWORD. Exit status 1: the standby has not taken over.",
        );
    PromoteOptions::augment_args(command)
}

fn witness_command() -> Command {
    let command = Command::new("witness")
        .about("Runs a member of a group with automatic failover that only votes")
        .after_help(
            "A witness has no data, and needs little memory and CPU time. Run it on a machine of its own. Its directory has its votes: \
             it must not be emptied while the group exists. Exit status 1: it cannot listen or write, 2: a wrong option.",
        );
    WitnessOptions::augment_args(command)
}

fn restore_command() -> Command {
    let command = Command::new("restore")
        .about("Builds a new data directory from a backup and the archived log")
        .after_help(
            "Without --backup and --until: everything that was archived. An interrupted restore leaves no \
             data directory and can be repeated. Exit status 1: the backup is damaged or files cannot be \
             written, 2: nothing was done.",
        );
    RestoreOptions::augment_args(command)
}

fn demo_command() -> Command {
    demo::Options::augment_args(Command::new("demo")).about(
        "Runs a server in memory with example data, and opens the shell for SQL; leaves nothing behind",
    )
}

fn cluster_command() -> Command {
    let command = Command::new("cluster").subcommand_required(true).after_help(
        "Nothing is installed or started on other hosts: `generate` writes files for them, and START.md says what \
         to do with them. Exit status 1: files would change (--check), or the demonstration failed; 2: the \
         description is wrong, or files were changed by hand.",
    );
    ClusterCommand::augment_subcommands(command)
        .about("Describes a TiKV cluster with Porpoise servers, and generates its settings")
}

fn man_command() -> Command {
    Command::new("man")
        .about("Writes the manual pages of all commands into a directory")
        .arg(
            Arg::new("into")
                .long("into")
                .value_name("DIR")
                .help("Directory of the pages; it is created")
                .required(true)
                .value_parser(clap::value_parser!(PathBuf)),
        )
}

/// The definition of the command line.
pub fn command() -> Command {
    Command::new("porpoise")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A database server: the same rows over the MySQL and memcached protocols, with constraints enforced for both")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(serve_command())
        .subcommand(config_command())
        .subcommand(sql_command())
        .subcommand(mc_command())
        .subcommand(demo_command())
        .subcommand(check_command())
        .subcommand(salvage_command())
        .subcommand(copy_command())
        .subcommand(backup_command())
        .subcommand(restore_command())
        .subcommand(promote_command())
        .subcommand(witness_command())
        .subcommand(import_command())
        .subcommand(cluster_command())
        .subcommand(bench_command())
        .subcommand(man_command())
}

/// Parses the command line, and reads environment and configuration file.
pub fn parse(
    args: impl IntoIterator<Item = OsString>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<CliCommand, StartError> {
    let matches = match command().try_get_matches_from(args) {
        Ok(matches) => matches,
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
            ) =>
        {
            return Ok(CliCommand::Print(error.to_string()));
        }
        Err(error) => return Err(StartError::usage(one_line(&error, NO_COMMAND))),
    };
    match matches.subcommand() {
        Some(("serve", given)) => {
            let config = settings(given, variable)?;
            Ok(CliCommand::Serve(Box::new(config)))
        }
        Some(("config", given)) => config_of(given, variable),
        Some((name, given)) => other_command(name, given, variable),
        None => Err(StartError::usage(NO_COMMAND)),
    }
}

/// The command `config`.
fn config_of(
    given: &ArgMatches,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<CliCommand, StartError> {
    match given.subcommand() {
        Some(("show", given)) => {
            let config = settings(given, variable)?;
            Ok(CliCommand::Print(report::show(&config)))
        }
        Some(("check", given)) => {
            let config = settings(given, variable)?;
            Ok(CliCommand::CheckConfig(Box::new(config)))
        }
        _ => Ok(CliCommand::Print(report::reference())),
    }
}

/// Any command but `serve` and `config`.
fn other_command(
    name: &str,
    given: &ArgMatches,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<CliCommand, StartError> {
    match name {
        "check" => {
            let dir = given.get_one::<PathBuf>("data-dir").cloned();
            let dir = dir.unwrap_or_default();
            let is_dump = given.get_flag("dump");
            Ok(if is_dump {
                CliCommand::Dump(dir)
            } else {
                match given.get_one::<String>("engine") {
                    None => CliCommand::Check(dir),
                    Some(text) => CliCommand::CheckCluster(Box::new(
                        ClusterUrl::parse(text)
                            .map_err(|e| StartError::usage(format!("--engine: expected {e}")))?,
                    )),
                }
            })
        }
        "salvage" => {
            let path = |name| given.get_one::<PathBuf>(name).cloned().unwrap_or_default();
            Ok(CliCommand::Salvage(path("from"), path("into")))
        }
        "copy" => {
            let place = |name: &str| {
                let text = given.get_one::<String>(name).map_or("", String::as_str);
                Place::parse(text).map_err(|e| StartError::usage(format!("--{name}: expected {e}")))
            };
            Ok(CliCommand::Copy(place("from")?, place("to")?))
        }
        "import" => {
            let options = import_options(given, variable)?;
            Ok(CliCommand::Import(Box::new(options)))
        }
        "backup" => options(given).map(|o| CliCommand::Backup(Box::new(o))),
        "promote" => options(given).map(|o| CliCommand::Promote(Box::new(o))),
        "witness" => options(given).map(|o| CliCommand::Witness(Box::new(o))),
        "restore" => options(given).map(|o| CliCommand::Restore(Box::new(o))),
        "sql" => options(given).map(|o| CliCommand::Sql(Box::new(o))),
        "mc" => options(given).map(|o| CliCommand::Mc(Box::new(o))),
        "man" => {
            let into = given.get_one::<PathBuf>("into").cloned();
            Ok(CliCommand::Manual(into.unwrap_or_default()))
        }
        "demo" => options(given).map(CliCommand::Demo),
        "cluster" => options(given).map(CliCommand::Cluster),
        "bench" => {
            let arguments = given.get_many("arguments").unwrap_or_default().cloned();
            Ok(CliCommand::Bench(arguments.collect()))
        }
        _ => Err(StartError::usage(NO_COMMAND)),
    }
}

/// The configuration that options of settings, environment and file give.
fn settings(
    given: &ArgMatches,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, StartError> {
    let mut options = Values::new();
    for setting in SETTINGS {
        if setting.value.is_empty() {
            if given.get_flag(setting.name) {
                options.insert(setting.name, "true".to_owned());
            }
        } else if let Some(text) = given.get_one::<String>(setting.name) {
            options.insert(setting.name, text.clone());
        }
    }
    let file = given
        .get_one::<String>("config")
        .cloned()
        .or_else(|| variable("PORPOISE_CONFIG"))
        .map(PathBuf::from);
    config::resolve(&options, variable, file.as_deref())
}

/// Options of a command that has its own structure of options.
fn options<O: FromArgMatches>(given: &clap::ArgMatches) -> Result<O, StartError> {
    O::from_arg_matches(given).map_err(|error| StartError::usage(one_line(&error, NO_COMMAND)))
}

/// Error message for a command line without a command.
const NO_COMMAND: &str = "a command is missing: use `porpoise serve`, or --help for all commands";

/// Reduces an error of the command line to one line; returns `no_command` if the error is a missing
/// subcommand.
pub fn one_line(error: &clap::Error, no_command: &str) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return no_command.to_owned();
    }
    let text = error.to_string();
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let mut message = first.strip_prefix("error: ").unwrap_or(first).to_owned();
    if message.ends_with(':') {
        // A list follows, of missing arguments for example.
        let list: Vec<&str> = lines
            .take_while(|line| !line.is_empty())
            .map(str::trim)
            .collect();
        message = format!("{message} {}", list.join(", "));
    }
    format!("{message}; try --help")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_args(args: &[&str]) -> Result<CliCommand, StartError> {
        parse(args.iter().map(OsString::from), &|_| None)
    }

    #[test]
    fn options_reach_the_configuration() {
        let command =
            parse_args(&["porpoise", "serve", "--mysql-listen", "off", "--pick-ports"]).unwrap();
        let CliCommand::Serve(config) = command else {
            panic!("{command:?}");
        };
        assert_eq!(config.mysql_listen, None);
        assert!(config.pick_ports);
        assert!(!config.insecure_memcached);
    }

    #[test]
    fn arguments_after_bench_are_passed_on_unchanged() {
        for words in [&[][..], &["kv", "--rows", "9"], &["--help"], &["fk", "-h"]] {
            let command = parse_args(&[&["porpoise", "bench"][..], words].concat()).unwrap();
            let CliCommand::Bench(arguments) = command else {
                panic!("{command:?}");
            };
            assert_eq!(arguments, words);
        }
    }

    #[test]
    fn errors_are_one_line_with_status_2() {
        for bad in [
            &["porpoise"][..],
            &["porpoise", "fly"],
            &["porpoise", "serve", "--colour", "blue"],
            &["porpoise", "serve", "--data-dir"],
            &["porpoise", "serve", "--http-listen", "nowhere"],
        ] {
            let error = parse_args(bad).unwrap_err();
            assert_eq!(error.status, 2);
            assert!(!error.message.contains('\n'), "{error}");
            assert!(!error.message.is_empty());
        }
        let error = parse_args(&["porpoise", "salvage"]).unwrap_err();
        assert_eq!(
            error.message,
            "the following required arguments were not provided: --from <DIR>, --into <NEW>; try --help"
        );
    }

    #[test]
    fn version_and_help_are_printed() {
        let Ok(CliCommand::Print(text)) = parse_args(&["porpoise", "--version"]) else {
            panic!();
        };
        assert_eq!(text, format!("porpoise {}\n", env!("CARGO_PKG_VERSION")));
        let Ok(CliCommand::Print(text)) = parse_args(&["porpoise", "serve", "--help"]) else {
            panic!();
        };
        for setting in SETTINGS {
            assert!(text.contains(&setting.option()), "{}", setting.name);
        }
    }
}
