//! Builds Go programs of this repository.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::fail;
use crate::process::run;

const REMEDY: &str = "Go is needed here: run `make needs`";

/// Builds the Go module in the directory `sources` (a path from the repository's root) and returns
/// the path of the program.
///
/// The Go tool rebuilds only what has changed and locks its cache, so several processes may build at
/// the same time; the program is moved into place atomically. The tests of one process build one after
/// the other.
pub fn build(name: &str, sources: &str) -> PathBuf {
    static BUILDING: Mutex<()> = Mutex::new(());
    let _turn = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    let root = root();
    let folder = root.join(sources);
    if !folder.is_dir() {
        fail(name, format_args!("{} is not there", folder.display()));
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let programs = target.join("tools/bin");
    if let Err(error) = std::fs::create_dir_all(&programs) {
        fail(
            name,
            format_args!("cannot make {}: {error}", programs.display()),
        );
    }
    let program = programs.join(name);
    let temporary = programs.join(format!("{name}.{}", std::process::id()));
    let mut command = Command::new(go());
    command
        .current_dir(&folder)
        .args(["build", "-buildvcs=false", "-o"])
        .arg(&temporary)
        .arg(".");
    run(name, &mut command, REMEDY);
    if let Err(error) = std::fs::rename(&temporary, &program) {
        fail(
            name,
            format_args!("cannot make {}: {error}", program.display()),
        );
    }
    program
}

/// Returns the `go` program that `make needs` found or installed.
fn go() -> PathBuf {
    let installed = Path::new("/usr/local/go/bin/go");
    std::env::var_os("PORPOISE_TEST_GO").map_or_else(
        || {
            let on_path = Command::new("go").arg("version").output().is_ok();
            if on_path || !installed.exists() {
                "go".into()
            } else {
                installed.to_path_buf()
            }
        },
        PathBuf::from,
    )
}

/// The repository's root: two levels above this crate's directory.
fn root() -> PathBuf {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_dir
        .ancestors()
        .nth(2)
        .unwrap_or(crate_dir)
        .to_path_buf()
}
