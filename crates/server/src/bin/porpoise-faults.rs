//! The server on a disk with injected faults, for tests: `porpoise-faults FAULTS serve ...`,
//! with pairs like `cut_at=100,seed=7` (`crates/base/src/disk/faulty.rs`).

#![deny(unsafe_code)]

use porpoise_base::disk::{Faults, FaultyDisk};
use porpoise_server::entry;
use std::process::ExitCode;
use std::sync::Arc;

/// The allocator of the server binary, so that tests use the same one.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    let program = arguments.next();
    let given = arguments.next().unwrap_or_default();
    match Faults::parse(&given.to_string_lossy()) {
        Ok(faults) => {
            eprintln!("porpoise-faults: this disk has faults: {}", given.display());
            let disk = Arc::new(FaultyDisk::new(faults));
            entry::main(program.into_iter().chain(arguments), disk)
        }
        Err(error) => {
            eprintln!("porpoise-faults: {error}");
            ExitCode::from(2)
        }
    }
}
