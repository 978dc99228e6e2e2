//! Porpoise: the server binary.

#![deny(unsafe_code)]

use porpoise_base::threads::{self, Role};
use porpoise_server::check;
use porpoise_server::cli::{self, Asked};
use porpoise_server::config::{Config, StartError};
use porpoise_server::{native, serve};
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The allocator's settings, a C string that it looks for under this name:
/// huge pages where the system grants them to those who ask. Rows and entries
/// lie all over the heap, and with small pages a walk in an index's order waits
/// for page tables more than for rows.
#[expect(
    unsafe_code,
    reason = "the name is the allocator's, and the type what it expects"
)]
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static MALLOC_CONF: &[u8; 11] = b"thp:always\0";

fn main() -> ExitCode {
    match threads::guard(Role::Main, start) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("porpoise: {error}");
            ExitCode::from(error.status)
        }
    }
}

fn start() -> Result<(), StartError> {
    match cli::parse(std::env::args_os(), &|name| std::env::var(name).ok())? {
        Asked::Print(text) => {
            print!("{text}");
            Ok(())
        }
        Asked::Serve(config) => {
            start_logging(&config)?;
            serve::run(&config)
        }
        Asked::Check(data_dir) => check::run(&data_dir),
        Asked::Bench(given) => {
            porpoise_bench::cli::run(&given, &native::open).map_err(|error| StartError {
                status: error.exit_status(),
                message: error.message,
            })
        }
    }
}

/// Log lines go to stderr; a panic is one of them.
fn start_logging(config: &Config) -> Result<(), StartError> {
    let filter = EnvFilter::try_new(&config.log).map_err(|e| {
        let message = format!("log: {:?} is not a filter: {e}", config.log);
        StartError::usage(message)
    })?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        tracing::error!(thread = thread.name(), "{panic}");
    }));
    Ok(())
}
