//! The dependency graph and the search for cycles.

use super::Allowed;
use std::collections::{BTreeSet, VecDeque};

/// Reason for which one transaction precedes another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Edge {
    Ww,
    Wr,
    Rw,
    RealTime,
}

/// The graph of transactions and their dependencies.
pub(super) struct Graph {
    next: Vec<BTreeSet<(usize, Edge)>>,
}

impl Graph {
    pub(super) fn new(transactions: usize) -> Graph {
        Graph {
            next: vec![BTreeSet::new(); transactions],
        }
    }

    pub(super) fn add(&mut self, from: usize, to: usize, edge: Edge) {
        if from != to
            && let Some(next) = self.next.get_mut(from)
        {
            next.insert((to, edge));
        }
    }

    /// Returns a shortest path between two transactions over edges of these kinds, with at least
    /// one edge.
    fn shortest_path(&self, from: usize, to: usize, kinds: &[Edge]) -> Option<Vec<usize>> {
        let mut before = vec![None; self.next.len()];
        let mut open = VecDeque::from([from]);
        while let Some(at) = open.pop_front() {
            for (next, edge) in self.next.get(at).into_iter().flatten() {
                if !kinds.contains(edge) {
                    continue;
                }
                if *next == to {
                    let mut shortest_path = vec![to];
                    let mut back = at;
                    loop {
                        shortest_path.push(back);
                        match before.get(back).copied().flatten() {
                            Some(b) if back != from => back = b,
                            _ => break,
                        }
                    }
                    shortest_path.reverse();
                    return Some(shortest_path);
                }
                if let Some(place @ None) = before.get_mut(*next)
                    && *next != from
                {
                    *place = Some(at);
                    open.push_back(*next);
                }
            }
        }
        None
    }

    /// Returns cycles that the isolation level does not allow, at most one of each kind.
    pub(super) fn anomalies(&self, allowed: Allowed) -> Vec<String> {
        use Edge::{RealTime, Rw, Wr, Ww};
        let mut found = Vec::new();
        let mut find_cycle = |name: &str, first: Option<Edge>, kinds: &[Edge]| {
            for (from, next) in self.next.iter().enumerate() {
                for (to, edge) in next {
                    let may_be_first = first.map_or(kinds.contains(edge), |first| first == *edge);
                    if !may_be_first {
                        continue;
                    }
                    if let Some(shortest_path) = self.shortest_path(*to, from, kinds) {
                        found.push(format!("{name}: {from} -{edge:?}-> then {shortest_path:?}"));
                        return true;
                    }
                }
            }
            false
        };
        if find_cycle("G0 or G1c", None, &[Ww, Wr])
            || find_cycle("G1 against real time", None, &[Ww, Wr, RealTime])
        {
            return found;
        }
        if !allowed.g_single
            && (find_cycle("G-single", Some(Rw), &[Ww, Wr])
                || find_cycle("G-single against real time", Some(Rw), &[Ww, Wr, RealTime]))
        {
            return found;
        }
        if !allowed.g2 {
            find_cycle("G2", Some(Rw), &[Ww, Wr, Rw, RealTime]);
        }
        found
    }
}
