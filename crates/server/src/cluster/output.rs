//! Writing of generated files, so that they can be generated again.
//!
//! The output directory has a list of the generated files, each with a checksum. A file that was edited by hand is
//! not overwritten, and one that is no longer generated is removed.

use super::files::{self, Files};
use super::topology::Topology;
use crate::config::StartError;
use clap::Args;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Name of the list of generated files.
const LIST: &str = ".generated";

/// Writes a line to standard output. A closed output, as of a pipe whose reader has ended, is not a failure.
pub(super) fn say(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout().lock(), "{line}");
}

const EXAMPLE: &str = include_str!("example.toml");

/// Options of `porpoise cluster init`.
#[derive(Args, Clone, Debug)]
pub struct InitOptions {
    /// File to write
    #[arg(long, value_name = "FILE", default_value = "cluster.toml")]
    into: PathBuf,
}

/// Options of `porpoise cluster generate`.
#[derive(Args, Clone, Debug)]
pub struct GenerateOptions {
    /// Description of the cluster, as `porpoise cluster init` writes one
    #[arg(long, value_name = "FILE", default_value = "cluster.toml")]
    from: PathBuf,
    /// Directory of the files; one below it for each host
    #[arg(long, value_name = "DIR", default_value = "cluster")]
    into: PathBuf,
    /// Write nothing; exit status 1 if files would change
    #[arg(long)]
    check: bool,
    /// Overwrite files that were edited by hand
    #[arg(long)]
    force: bool,
}

fn failed(path: &Path, error: &io::Error) -> StartError {
    StartError::failure(format!("cluster: {}: {error}", path.display()))
}

/// Writes the example, unless there is a file.
pub(super) fn init(options: &InitOptions) -> Result<(), StartError> {
    let path = &options.into;
    let created = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path);
    let mut file = match created {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            let message = format!(
                "cluster: {} exists already; name another file with --into",
                path.display()
            );
            return Err(StartError::usage(message));
        }
        other => other.map_err(|e| failed(path, &e))?,
    };
    file.write_all(EXAMPLE.as_bytes())
        .map_err(|e| failed(path, &e))?;
    say(format_args!(
        "{0} was written: edit it, then run `porpoise cluster generate --from {0}`",
        path.display()
    ));
    Ok(())
}

/// Checksum of a file in the list (FNV-1a, 64 bits: it detects edits, not forgeries).
fn checksum(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

fn read_list(directory: &Path) -> Result<BTreeMap<String, u64>, StartError> {
    let path = directory.join(LIST);
    let text = match fs::read_to_string(&path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        other => other.map_err(|e| failed(&path, &e))?,
    };
    let entry = |line: &str| {
        let (sum, name) = line.split_once(' ')?;
        // The list must not name a file outside of the directory.
        let is_inside = !name.starts_with('/') && !name.split('/').any(|part| part == "..");
        Some((name.to_owned(), u64::from_str_radix(sum, 16).ok()?)).filter(|_| is_inside)
    };
    text.lines()
        .map(|line| {
            entry(line).ok_or_else(|| {
                StartError::usage(format!(
                    "cluster: {}: malformed line: {line}",
                    path.display()
                ))
            })
        })
        .collect()
}

/// The changes that generating makes in a directory.
#[derive(Default)]
struct Plan {
    written: Vec<String>,
    removed: Vec<String>,
    edited: Vec<String>,
}

impl Plan {
    fn of(directory: &Path, files: &Files) -> Result<Plan, StartError> {
        let list = read_list(directory)?;
        let mut plan = Plan::default();
        let names: std::collections::BTreeSet<&String> = list.keys().chain(files.keys()).collect();
        for name in names {
            let path = directory.join(name);
            let found = match fs::read_to_string(&path) {
                Ok(text) => Some(text),
                Err(e) if e.kind() == io::ErrorKind::NotFound => None,
                Err(e) => return Err(failed(&path, &e)),
            };
            let wanted = files.get(name);
            if found.as_ref() == wanted {
                continue;
            }
            let is_own = |text: &String| list.get(name) == Some(&checksum(text));
            if found.as_ref().is_some_and(|text| !is_own(text)) {
                plan.edited.push(name.clone());
            }
            match wanted {
                Some(_) => plan.written.push(name.clone()),
                None => plan.removed.push(name.clone()),
            }
        }
        Ok(plan)
    }

    fn carry_out(&self, directory: &Path, files: &Files) -> Result<(), StartError> {
        for name in &self.removed {
            let path = directory.join(name);
            match fs::remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(failed(&path, &e)),
                _ => {}
            }
            // Removes the host's directory, too, if this was its last file.
            let _ = path.parent().map(fs::remove_dir);
        }
        for name in &self.written {
            let path = directory.join(name);
            let parent = path.parent().unwrap_or(directory);
            fs::create_dir_all(parent).map_err(|e| failed(parent, &e))?;
            let text = files.get(name).map_or("", String::as_str);
            fs::write(&path, text).map_err(|e| failed(&path, &e))?;
        }
        let line = |(name, text): (&String, &String)| format!("{:016x} {name}\n", checksum(text));
        let list: String = files.iter().map(line).collect();
        let path = directory.join(LIST);
        fs::write(&path, list).map_err(|e| failed(&path, &e))
    }
}

/// Generates the files of a description.
pub(super) fn generate(options: &GenerateOptions) -> Result<(), StartError> {
    let from = &options.from;
    let text = fs::read_to_string(from)
        .map_err(|e| StartError::usage(format!("cluster: {}: {e}", from.display())))?;
    let topology = Topology::parse(&text).map_err(|problems| {
        StartError::usage(format!(
            "cluster: {}: {}",
            from.display(),
            problems.trim().replace('\n', "; ")
        ))
    })?;
    let files = files::all(&topology);
    let plan = Plan::of(&options.into, &files)?;
    for warning in topology.warnings() {
        say(format_args!("warning: {warning}"));
    }
    for (what, names) in [("write", &plan.written), ("remove", &plan.removed)] {
        for name in names {
            say(format_args!("{what} {name}"));
        }
    }
    let changes = plan.written.len() + plan.removed.len();
    if options.check && changes > 0 {
        return Err(StartError::failure(format!(
            "cluster: {changes} files would change"
        )));
    }
    if options.check {
        say(format_args!("nothing would change"));
        return Ok(());
    }
    if !plan.edited.is_empty() && !options.force {
        let names = plan.edited.join(", ");
        let message = format!(
            "cluster: nothing was written, because these files were edited by hand: {names} (--force overwrites them)"
        );
        return Err(StartError::usage(message));
    }
    plan.carry_out(&options.into, &files)?;
    let into = options.into.display();
    say(format_args!(
        "{} files in {into}, {changes} changed; continue with {into}/START.md",
        files.len()
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generating_again_changes_nothing_and_spares_edits() {
        let home = tempfile::tempdir().unwrap();
        let from = home.path().join("cluster.toml");
        init(&InitOptions { into: from.clone() }).unwrap();
        assert!(init(&InitOptions { into: from.clone() }).is_err());
        let mut options = GenerateOptions {
            from: from.clone(),
            into: home.path().join("out"),
            check: true,
            force: false,
        };
        assert_eq!(generate(&options).unwrap_err().status, 1);
        assert!(!options.into.exists());
        options.check = false;
        generate(&options).unwrap();
        options.check = true;
        generate(&options).unwrap();
        options.check = false;
        // A host less, and a file changed by hand.
        let edited = options.into.join("db1.example.net/tikv.toml");
        fs::write(&edited, "# mine\n").unwrap();
        let fewer = EXAMPLE.replace(", \"app2.example.net\"", "");
        fs::write(&from, fewer).unwrap();
        let refused = generate(&options).unwrap_err();
        assert!(
            refused.message.contains("db1.example.net/tikv.toml"),
            "{refused}"
        );
        assert!(options.into.join("app2.example.net").exists());
        options.force = true;
        generate(&options).unwrap();
        assert!(!options.into.join("app2.example.net").exists());
        assert_ne!(fs::read_to_string(&edited).unwrap(), "# mine\n");
    }

    #[test]
    fn the_list_names_no_file_outside() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(LIST), "0000000000000000 a/../../b\n").unwrap();
        assert!(read_list(home.path()).is_err());
    }
}
