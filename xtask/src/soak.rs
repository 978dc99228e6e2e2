//! `cargo xtask soak`: the long tests, for the script behind `make soak`.

use crate::rules::long_tests;
use crate::tree::root;

const LIST: &str = "tests/soak.list";

/// Prints the list without comments.
pub fn print_list() -> Result<(), String> {
    let text = std::fs::read_to_string(root()?.join(LIST))
        .map_err(|error| format!("xtask: {LIST}: {error}"))?;
    for (package, test) in long_tests(&text) {
        println!("{package} {test}");
    }
    Ok(())
}
