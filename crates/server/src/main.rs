//! Porpoise: the server binary.

#![deny(unsafe_code)]

use porpoise_base::disk;
use porpoise_server::entry;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Settings of jemalloc, which reads a C string with this exported name. Transparent huge pages are
/// used where the system grants them on request: rows and index entries are scattered over the heap,
/// and with small pages a scan in index order spends most of its time in TLB misses and page table
/// walks.
#[expect(
    unsafe_code,
    reason = "the name is the allocator's, and the type what it expects"
)]
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static MALLOC_CONF: &[u8; 11] = b"thp:always\0";

fn main() -> ExitCode {
    entry::main(std::env::args_os(), disk::real())
}
