//! Checks that the text which a planted fault replaces occurs exactly once in its file, so that the
//! list of faults is updated when the code changes.

use super::Violation;
use crate::mutants::{LIST, parse};
use crate::tree::Tree;

const RULE: &str = "mutants";

/// Checks the list of planted faults.
pub fn check(tree: &Tree) -> Result<Vec<Violation>, String> {
    let Some(list) = tree.file(LIST) else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for mutant in parse(&list.text)? {
        let text = tree.file(&mutant.file).map_or("", |file| &file.text);
        let count = text.matches(&mutant.find).count();
        if count != 1 {
            let message = format!(
                "the anchor of {:?} stands {count} times in {}, not once",
                mutant.name, mutant.file
            );
            found.push(Violation::of(RULE, LIST, message));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_does_not_occur_exactly_once_is_a_violation() {
        let list = "[[mutant]]\nname='n'\nfile='a.rs'\nfind='x = 1'\nwith=''\ntest=''\n";
        let tree = |text| Tree::of(&[(LIST, list), ("a.rs", text)]);
        assert!(check(&tree("let x = 1;")).is_ok_and(|found| found.is_empty()));
        assert!(check(&tree("let x = 2;")).is_ok_and(|found| found.len() == 1));
        assert!(check(&tree("x = 1; x = 1;")).is_ok_and(|found| found.len() == 1));
    }
}
