//! Options of the experiments of a phase: only what its budgets judge is measured.

use super::{Phase, Selection};
use crate::experiments::BenchOptions;
use crate::experiments::kv::Operation;
use crate::experiments::memcached::Operation as CacheOperation;
use crate::experiments::native::Work;

/// Rounds and connections of sysbench's scripts with `--quick`: fewer, because a run takes whole seconds.
const QUICK_SYSBENCH: (usize, usize) = (2, 8);

/// Rows of the table of `schema-change`; with `--quick`.
const CHANGED_ROWS: (u64, u64) = (1_000_000, 100_000);

/// Operations and sizes of an experiment that the selected budgets judge; empty: all.
#[derive(Debug, Default, PartialEq, Eq)]
struct Needs {
    operations: Vec<&'static str>,
    sizes: Vec<u64>,
}

impl Phase {
    fn needs(&self, experiment: &str, selection: &Selection) -> Needs {
        let mut needs = Needs::default();
        let (mut all_operations, mut all_sizes) = (false, false);
        let wanted = self.budgets.iter().filter(|b| b.experiment == experiment);
        for budget in wanted.filter(|b| selection.has(b.work, b.experiment)) {
            all_operations |= budget.operations.is_empty();
            all_sizes |= budget.sizes.is_empty();
            needs.operations.extend(budget.operations);
            needs.sizes.extend(budget.sizes);
        }
        if all_operations {
            needs.operations.clear();
        }
        if all_sizes {
            needs.sizes.clear();
        }
        needs.sizes.sort_unstable();
        needs.sizes.dedup();
        needs
    }

    /// Restricts an experiment's options to what the selected budgets judge.
    pub fn restrict(&self, experiment: &str, selection: &Selection, options: &mut BenchOptions) {
        let needs = self.needs(experiment, selection);
        let is_quick = options.is_quick;
        let sizes: Vec<usize> = needs.sizes.iter().map(|n| *n as usize).collect();
        if let Some(rows) = self.rows {
            options.rows = rows;
        }
        match experiment {
            "first" => {
                let parse = |name: &&str| Operation::parse_list(name).unwrap_or_default();
                options.operations = needs.operations.iter().flat_map(parse).collect();
                options.clients = sizes;
            }
            "mget" => options.keys = sizes,
            "memcached" => {
                let mut wanted: Vec<CacheOperation> = Vec::new();
                for name in &needs.operations {
                    let operation = cache_operation(name);
                    if !wanted.contains(&operation) {
                        wanted.push(operation);
                    }
                }
                options.memcached.operations = wanted;
            }
            "sysbench" => {
                let names = needs.operations.iter();
                options.scripts = names.map(|name| (*name).to_owned()).collect();
                if is_quick {
                    options.effort.rounds = options.effort.rounds.min(QUICK_SYSBENCH.0);
                    options.clients = vec![QUICK_SYSBENCH.1];
                }
            }
            "schema-change" if options.rows == 0 => {
                let (rows, quick) = CHANGED_ROWS;
                options.rows = if is_quick { quick } else { rows };
            }
            "native" => {
                options.native.works = vec![Work::ReadMany];
                options.native.stores = vec!["engine".to_owned()];
                options.native.times_starts = true;
                options.clients = vec![1];
            }
            _ => {}
        }
    }
}

/// The operation of `bench memcached` with this name in reports.
fn cache_operation(name: &str) -> CacheOperation {
    if name.starts_with("get of 50 keys") {
        CacheOperation::Many(50)
    } else if name.starts_with("get") {
        CacheOperation::Get
    } else {
        CacheOperation::Set
    }
}

#[cfg(test)]
mod tests {
    use super::super::PHASES;
    use super::*;

    #[test]
    fn only_what_is_judged_is_measured() {
        let of = |phase: usize, experiment, words| {
            let needs = PHASES[phase].needs(experiment, &Selection::of(words));
            (needs.operations, needs.sizes)
        };
        assert_eq!(
            of(1, "first", ""),
            (vec!["SELECT", "UPDATE", "INSERT"], vec![8, 64])
        );
        assert_eq!(of(1, "first", "SELECT by"), (vec!["SELECT"], vec![8, 64]));
        assert_eq!(of(1, "sysbench", ""), (vec![], vec![]));
        assert_eq!(of(1, "sysbench", "bulk"), (vec!["bulk_insert"], vec![]));
        assert_eq!(of(1, "mget", ""), (vec![], vec![50]));
    }

    #[test]
    fn names_of_budgets_are_those_of_operations() {
        for budget in PHASES.iter().flat_map(|phase| phase.budgets) {
            for name in budget.operations {
                match budget.experiment {
                    "first" => assert!(Operation::parse_list(name).is_ok(), "{name}"),
                    "memcached" => {
                        let known = cache_operation(name).name();
                        assert!(name.starts_with(&known), "{name}: {known}");
                    }
                    _ => {}
                }
            }
        }
    }
}
