//! `cargo xtask soak`: prints the list of long tests for `scripts/soak.sh` (`make soak`).

use crate::rules::long_tests;
use crate::tree::root;

const LIST: &str = "tests/soak.list";

/// Prints `PACKAGE TEST` for each entry of `tests/soak.list`, without comments.
pub fn print_list() -> Result<(), String> {
    let text = std::fs::read_to_string(root()?.join(LIST))
        .map_err(|error| format!("xtask: {LIST}: {error}"))?;
    for (package, test) in long_tests(&text) {
        println!("{package} {test}");
    }
    Ok(())
}
