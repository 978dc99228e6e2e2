//! Sampled commands: of one command in many, the time is measured and the key is counted
//! ([`crate::command_statistics`], [`porpoise_rows::hot_keys`]).

use crate::command_statistics::Verb;
use crate::container::Container;
use crate::mapping::{Mapping, Rule};
use porpoise_rows::Db;
use porpoise_rows::hot_keys::{Interface, Sample};
use std::time::Instant;

/// A command that was chosen by the sampler.
pub(crate) struct SampledCommand<'a> {
    pub(crate) verb: Verb,
    pub(crate) key: &'a [u8],
    pub(crate) began: Instant,
    /// Number of commands that took this time together.
    pub(crate) commands: u32,
}

impl SampledCommand<'_> {
    /// Records the time and the key of the command.
    #[cold]
    #[inline(never)]
    pub(crate) fn note(&self, mapping: &Mapping, db: &Db) {
        let Some(rule) = mapping.rule(self.key) else {
            return;
        };
        if let Some(statistics) = &rule.statistics {
            statistics.time(self.verb, self.began, db.clock().now(), self.commands);
        }
        let container = container_of(mapping, rule);
        db.hot_keys().record(Sample {
            interface: Interface::Memcached,
            index: container.map(|container| (container.table.id, container.index())),
            prefix: &rule.prefix,
            key: self.key,
            writes: !matches!(self.verb, Verb::Get),
        });
    }
}

fn container_of<'m>(mapping: &'m Mapping, rule: &Rule) -> Option<&'m Container> {
    mapping.containers.get(*rule.target.as_ref().ok()?)
}

/// Decides which of the next `commands` commands is sampled. Returns its position (that of the last
/// one if there are several) and the present time; `None` if no command is sampled.
#[inline]
pub(crate) fn begin(db: &Db, commands: u32) -> Option<(u32, Instant)> {
    choose(db, commands).map(|at| (at, db.clock().now()))
}

/// Decides which of `commands` commands, at least one, is sampled. Returns its position (that of the
/// last one if there are several); `None` if no command is sampled.
#[inline]
pub(crate) fn choose(db: &Db, commands: u32) -> Option<u32> {
    let mut sampled = None;
    let sampler = db.hot_keys().sampler();
    sampler.sample(commands, |at| sampled = Some(at));
    sampled
}
