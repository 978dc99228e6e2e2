//! A stable merge sort that KILL, deadlines and shutdown can interrupt.
//!
//! A comparison cannot return an error, and the standard library's sort may panic when an
//! abandoned comparison gives inconsistent results. So the standard library sorts runs of
//! bounded length without interruption, and this module merges them pairwise with an
//! interrupt checkpoint every few hundred items ([`crate::interrupt`]).

use crate::interrupt::{Interrupted, Pacer, check, hold};
use std::cmp::Ordering;

/// Length of a run where a comparison takes nanoseconds; sorting a run takes about a
/// millisecond.
pub const RUN_CHEAP: usize = 16_384;
/// Length of a run where a comparison takes about a microsecond.
pub const RUN_EXPENSIVE: usize = 512;

/// Sorts `items` by `compare`, stably, in runs of at most `run` items (not 0).
///
/// # Errors
/// [`Interrupted`] when there is a reason to stop; `items` is empty then.
pub fn sort_by<T>(
    items: &mut Vec<T>,
    run: usize,
    mut compare: impl FnMut(&T, &T) -> Ordering,
) -> Result<(), Interrupted> {
    if items.len() <= run.max(1) {
        let _hold = hold();
        items.sort_by(&mut compare);
        return Ok(());
    }
    let mut runs = Vec::with_capacity(items.len() / run + 1);
    let mut rest = std::mem::take(items).into_iter();
    loop {
        let mut part: Vec<T> = rest.by_ref().take(run).collect();
        if part.is_empty() {
            break;
        }
        check()?;
        let guard = hold();
        part.sort_by(&mut compare);
        drop(guard);
        runs.push(part);
    }
    drop(rest);
    let mut pacer = Pacer::new();
    while runs.len() > 1 {
        let mut longer = Vec::with_capacity(runs.len() / 2 + 1);
        let mut pairs = runs.into_iter();
        while let Some(first) = pairs.next() {
            longer.push(match pairs.next() {
                Some(second) => merge_runs(first, second, &mut compare, &mut pacer)?,
                None => first,
            });
        }
        runs = longer;
    }
    *items = runs.pop().unwrap_or_default();
    Ok(())
}

/// Merges two sorted runs stably: of equal items those of `first` come first.
fn merge_runs<T>(
    first: Vec<T>,
    second: Vec<T>,
    compare: &mut impl FnMut(&T, &T) -> Ordering,
    pacer: &mut Pacer,
) -> Result<Vec<T>, Interrupted> {
    let mut out = Vec::with_capacity(first.len() + second.len());
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let (mut a, mut b) = (first.next(), second.next());
    loop {
        pacer.tick()?;
        match (a, b) {
            (Some(x), Some(y)) => {
                if compare(&x, &y).is_le() {
                    out.push(x);
                    (a, b) = (first.next(), Some(y));
                } else {
                    out.push(y);
                    (a, b) = (Some(x), second.next());
                }
            }
            (x, y) => {
                out.extend(x.into_iter().chain(first));
                out.extend(y.into_iter().chain(second));
                return Ok(out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::{Cancel, Reason};
    use crate::interrupt::Scope;

    #[test]
    fn sorts_as_the_standard_library_does() {
        for length in [0usize, 1, 7, 8, 9, 64, 1000] {
            let mut seed = 1u64;
            let mut next = || {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                seed >> 60
            };
            let items: Vec<(u64, usize)> = (0..length).map(|at| (next(), at)).collect();
            let (mut ours, mut theirs) = (items.clone(), items);
            sort_by(&mut ours, 8, |a, b| a.0.cmp(&b.0)).unwrap();
            theirs.sort_by_key(|item| item.0);
            assert_eq!(ours, theirs);
        }
    }

    #[test]
    fn a_sort_ends_when_its_statement_does() {
        let cancel = Cancel::new();
        let _scope = Scope::enter(&cancel);
        cancel.cancel(Reason::Query);
        let mut items: Vec<u32> = (0..10_000).rev().collect();
        assert!(sort_by(&mut items, 8, Ord::cmp).is_err());
        let mut few: Vec<u32> = (0..8).rev().collect();
        assert!(sort_by(&mut few, 8, Ord::cmp).is_ok());
    }
}
