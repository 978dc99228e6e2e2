//! Manual pages: one for the program and one for each of its commands, generated from the definitions of
//! the command line. `make dist` packs them.

use crate::config::StartError;
use clap::Command;
use std::path::Path;

/// Writes the pages of section 1 into a directory, which is created.
///
/// # Errors
/// A file cannot be written.
pub fn write(command: Command, into: &Path) -> Result<(), StartError> {
    let failed = |e| StartError::failure(format!("{}: {e}", into.display()));
    std::fs::create_dir_all(into).map_err(failed)?;
    clap_mangen::generate_to(command, into).map_err(failed)
}
