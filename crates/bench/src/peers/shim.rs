//! The same delay added to every system's syncs: a small library, compiled
//! on demand, that is loaded before the C library and sleeps after
//! the real call. It simulates a slow disk on a machine with a fast one.

use crate::error::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <time.h>

static int later(int result) {
    int kept = errno;
    struct timespec left = { DELAY_SECONDS, DELAY_NANOS };
    while (nanosleep(&left, &left) != 0 && errno == EINTR) { }
    errno = kept;
    return result;
}

int fsync(int fd) {
    static int (*real)(int);
    if (!real) real = (int (*)(int)) dlsym(RTLD_NEXT, "fsync");
    return later(real(fd));
}

int fdatasync(int fd) {
    static int (*real)(int);
    if (!real) real = (int (*)(int)) dlsym(RTLD_NEXT, "fdatasync");
    return later(real(fd));
}
"#;

/// Compiles the library into a directory. Returns its path.
///
/// # Errors
/// There is no C compiler, or it failed.
pub fn build(directory: &Path, delay: Duration) -> Result<PathBuf> {
    let source = directory.join("fsync-delay.c");
    let library = directory.join("fsync-delay.so");
    std::fs::write(&source, SOURCE)?;
    let output = Command::new("cc")
        .args(["-O2", "-shared", "-fPIC"])
        .arg(format!("-DDELAY_SECONDS={}", delay.as_secs()))
        .arg(format!("-DDELAY_NANOS={}", delay.subsec_nanos()))
        .arg("-o")
        .arg(&library)
        .arg(&source)
        .arg("-ldl")
        .output()
        .map_err(|e| Error::failed(format!("--fsync-delay needs the C compiler cc: {e}")))?;
    if output.status.success() {
        return Ok(library);
    }
    let output = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(Error::failed(format!("cc failed: {output}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn syncs_of_a_program_take_longer() {
        let home = tempfile::tempdir().unwrap();
        let library = build(home.path(), Duration::from_millis(300)).unwrap();
        let sync = |preload: bool| {
            let mut command = Command::new("dd");
            command.args(["if=/dev/zero", "bs=1", "count=1", "conv=fdatasync"]);
            command.arg(format!("of={}", home.path().join("f").display()));
            if preload {
                command.env("LD_PRELOAD", &library);
            }
            let begun = Instant::now();
            assert!(command.output().unwrap().status.success());
            begun.elapsed()
        };
        sync(false);
        assert!(sync(true) >= Duration::from_millis(300));
    }
}
