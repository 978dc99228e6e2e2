//! The binary that `porpoise bench` executes.

#![deny(unsafe_code)]

use porpoise_base::threads::{self, Role};
use std::process::ExitCode;

/// The server's allocator, so that `bench native` measures what the server would.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The allocator's settings: those of the server's binary (`crates/server/src/main.rs`).
#[expect(
    unsafe_code,
    reason = "the name is the allocator's, and the type what it expects"
)]
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static MALLOC_CONF: &[u8; 11] = b"thp:always\0";

fn main() -> ExitCode {
    match threads::guard(Role::Main, || porpoise_bench::cli::run(std::env::args_os())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("porpoise: {error}");
            ExitCode::from(error.exit_status())
        }
    }
}
