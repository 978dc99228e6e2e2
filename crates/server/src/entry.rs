//! Entry point of the server's binaries: reads the command line and runs its command.
//!
//! `porpoise` passes the disk of the machine; the binary for tests (`porpoise-faults`)
//! one with faults. Load generators are in `porpoise-bench`, found beside this binary.

use crate::backup::command;
use crate::check;
use crate::cli::{self, CliCommand};
use crate::cluster;
use crate::config::{Config, StartError, exposure};
use crate::copy;
use crate::demo;
use crate::failover::{self, witness};
use crate::import;
use crate::log_format::LogFormat;
use crate::manual;
use crate::reload::SetLogFilter;
use crate::salvage;
use crate::serve;
use crate::standby::promote;
use crate::tls;
use porpoise_base::disk::Disk;
use porpoise_base::threads::{self, Role};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use tracing_subscriber::EnvFilter;

/// File name of the benchmark program.
const BENCH: &str = "porpoise-bench";

/// Exit status if the benchmark program is missing: the one that a shell uses for a command that
/// was not found.
const NOT_FOUND: u8 = 127;

/// Runs the command that the arguments name; the embedded engine of `serve`
/// keeps its files on `disk`.
pub fn main(arguments: impl IntoIterator<Item = OsString>, disk: Arc<dyn Disk>) -> ExitCode {
    match threads::guard(Role::Main, || run(arguments, disk)) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("porpoise: {error}");
            ExitCode::from(error.status)
        }
    }
}

fn run(
    arguments: impl IntoIterator<Item = OsString>,
    disk: Arc<dyn Disk>,
) -> Result<ExitCode, StartError> {
    let done = |()| ExitCode::SUCCESS;
    match cli::parse(arguments, &|name| std::env::var(name).ok())? {
        CliCommand::Print(text) => {
            print!("{text}");
            Ok(ExitCode::SUCCESS)
        }
        CliCommand::Serve(config) => {
            let log = start_logging(&config.log, config.log_json)?;
            serve::run(&config, disk, Some(log)).map(done)
        }
        CliCommand::Sql(options) => Ok(porpoise_shell::sql::run(&options)),
        CliCommand::Mc(options) => Ok(porpoise_shell::mc::run(&options)),
        CliCommand::Demo(options) => demo::run(&options),
        CliCommand::CheckConfig(config) => {
            check_config(&config)?;
            println!("the configuration is valid");
            Ok(ExitCode::SUCCESS)
        }
        CliCommand::Check(data_dir) => check::run(&data_dir).map(done),
        CliCommand::Cluster(command) => cluster::run(&command).map(done),
        CliCommand::CheckCluster(url) => check::run_cluster(&url).map(done),
        CliCommand::Dump(data_dir) => check::dump(&data_dir).map(done),
        CliCommand::Salvage(from, into) => salvage::run(&from, &into).map(done),
        CliCommand::Copy(from, to) => copy::run(&from, &to).map(done),
        CliCommand::Backup(options) => command::run_backup(&options).map(done),
        CliCommand::Restore(options) => command::run_restore(&options).map(done),
        CliCommand::Promote(options) => promote::run(&options).map(done),
        CliCommand::Witness(options) => {
            let _set_filter = start_logging(&options.log, false)?;
            witness::run(&options).map(done)
        }
        CliCommand::Import(options) => import::run(&options).map(done),
        CliCommand::Manual(into) => manual::write(cli::command(), &into).map(done),
        CliCommand::Bench(arguments) => Err(execute_bench(&arguments)),
    }
}

/// Replaces this process by the benchmark program beside it. Returns only on failure, with the
/// error.
fn execute_bench(arguments: &[OsString]) -> StartError {
    let this = match std::env::current_exe() {
        Ok(this) => this,
        Err(e) => return StartError::failure(format!("bench: cannot find this program: {e}")),
    };
    let program = this.with_file_name(BENCH);
    let error = Command::new(&program).args(arguments).exec();
    let message = format!(
        "bench: cannot execute {}: {error}; install {BENCH} beside porpoise, or build it with \
         `cargo build --release -p {BENCH}`",
        program.display()
    );
    StartError {
        message,
        status: NOT_FOUND,
    }
}

/// Parses the log filter.
fn log_filter(text: &str) -> Result<EnvFilter, StartError> {
    EnvFilter::try_new(text).map_err(|e| {
        let message = format!("--log: {text:?} is not a level or filter: {e}");
        StartError::usage(message)
    })
}

/// Makes the checks of `serve` on the configuration that need no data directory.
fn check_config(config: &Config) -> Result<(), StartError> {
    log_filter(&config.log)?;
    exposure::check_memcached(config)?;
    failover::check(config)?;
    if config.tls_cert.is_some() {
        tls::Certificates::open(config)?;
    }
    Ok(())
}

/// Starts logging to stderr; panics are logged too. Returns a function that replaces the filter.
fn start_logging(filter: &str, as_json: bool) -> Result<SetLogFilter, StartError> {
    let builder = tracing_subscriber::fmt()
        .event_format(LogFormat::new(as_json))
        .with_env_filter(log_filter(filter)?)
        .with_writer(std::io::stderr)
        .with_filter_reloading();
    let handle = builder.reload_handle();
    builder.init();
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        tracing::error!(thread = thread.name(), "{panic}");
    }));
    Ok(Box::new(move |text, in_force| {
        let filter = EnvFilter::try_new(text).map_err(|e| e.to_string())?;
        if in_force {
            handle.reload(filter).map_err(|e| e.to_string())?;
        }
        Ok(())
    }))
}
