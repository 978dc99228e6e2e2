//! Each planted fault's anchor stands exactly once in its file, so that a
//! change of the code cannot leave the list of faults behind.

use super::Violation;
use crate::mutants::{LIST, parse};
use crate::tree::Tree;

const RULE: &str = "mutants";

/// Judges the list of planted faults.
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
    fn an_anchor_that_is_gone_is_a_violation() {
        let list = "[[mutant]]\nname='n'\nfile='a.rs'\nfind='x = 1'\nwith=''\ntest=''\n";
        let of = |text| Tree::of(&[(LIST, list), ("a.rs", text)]);
        assert!(check(&of("let x = 1;")).is_ok_and(|found| found.is_empty()));
        assert!(check(&of("let x = 2;")).is_ok_and(|found| found.len() == 1));
        assert!(check(&of("x = 1; x = 1;")).is_ok_and(|found| found.len() == 1));
    }
}
