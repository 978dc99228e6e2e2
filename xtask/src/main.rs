//! Commands of the workspace: `cargo xtask check`, `test`, `ratchet`, `mutants`, `loc` and `soak`.
//!
//! `check` reads the whole tree once into a [`tree::Tree`] and passes it to one function per rule
//! (module [`rules`]). A rule is a pure function from a tree to violations, so that its unit tests
//! can check violations in memory.
//!
//! Invariants:
//! 1. A rule never reads the disk: everything that it checks is in the tree passed to it.
//! 2. `check` prints all violations, not only the first, each in a line with file and line number.
//! 3. Lists (banned words, recorded lengths, ignored tests) are data files, not code.
//!
//! Rejected: a full Rust parser. It would take longer to compile than the rest of this program, and
//! the rules need only comments, strings, braces and names.

#![forbid(unsafe_code)]

mod loc;
mod mutants;
mod ratchet;
mod rules;
mod scan;
mod soak;
mod test_runner;
mod tree;

use std::process::ExitCode;

use tree::Tree;

const USAGE: &str = "usage: cargo xtask COMMAND

  check             check the rules of the code; exit status 1 and one line per violation
  test [ARG]...     build and run tests, several test binaries at a time; ARGs are those of `cargo test`,
                    and `--jobs N`, `--threads N`: binaries at a time, tests at a time in each
  ratchet           lower the recorded lengths of long functions to what they are now
  ratchet --init    record all lengths as they are now, longer ones too
  mutants [PART]... plant faults in a copy of what is committed; exit status 1 unless all are caught
  loc               print lines per crate
  soak              print the long tests, one `PACKAGE TEST` a line, as `make soak` runs them";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["check"] => check(),
        ["test", arguments @ ..] => test_runner::run(arguments),
        ["ratchet"] => rules::rewrite_ratchet(false),
        ["ratchet", "--init"] => rules::rewrite_ratchet(true),
        ["loc"] => Tree::read().map(|tree| print!("{}", loc::table(&tree))),
        ["mutants", only @ ..] => mutants::run(only),
        ["soak"] => soak::print_list(),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn check() -> Result<(), String> {
    let tree = Tree::read()?;
    for warning in rules::warnings(&tree) {
        println!("warning: {warning}");
    }
    let violations = rules::run_all(&tree)?;
    for violation in &violations {
        println!("{violation}");
    }
    if violations.is_empty() {
        println!("rules: {} files in order", tree.files.len());
        return Ok(());
    }
    Err(format!("rules: {} violations", violations.len()))
}
