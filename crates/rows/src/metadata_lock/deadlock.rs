//! Search for a cycle in a graph of waits.

use smallvec::SmallVec;

/// Returns the sessions of a cycle through `start`, beginning with it: each waits for the next, and
/// the last for `start`. `waits_for` returns the sessions that one waits for.
///
/// A depth-first search. Sessions that lead nowhere are visited once.
pub(super) fn cycle_through(
    start: usize,
    waits_for: impl Fn(usize) -> SmallVec<[usize; 4]>,
) -> Option<Vec<usize>> {
    let mut path = vec![(start, waits_for(start))];
    let mut visited = vec![start];
    while let Some((_, blockers)) = path.last_mut() {
        match blockers.pop() {
            None => {
                path.pop();
            }
            Some(next) if next == start => {
                return Some(path.into_iter().map(|(session, _)| session).collect());
            }
            Some(next) if visited.contains(&next) => {}
            Some(next) => {
                visited.push(next);
                path.push((next, waits_for(next)));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(edges: &[(usize, usize)]) -> Option<Vec<usize>> {
        let from = |session| edges.iter().filter(move |(a, _)| *a == session);
        cycle_through(1, |session| from(session).map(|(_, b)| *b).collect())
    }

    #[test]
    fn a_cycle_is_found_behind_branches_that_end_or_lead_round() {
        assert_eq!(search(&[]), None);
        assert_eq!(search(&[(1, 2), (2, 3), (3, 2)]), None);
        assert_eq!(search(&[(1, 2), (2, 1)]), Some(vec![1, 2]));
        let edges = [(1, 4), (4, 3), (3, 1), (1, 2), (2, 5), (5, 2)];
        assert_eq!(search(&edges), Some(vec![1, 4, 3]));
    }
}
