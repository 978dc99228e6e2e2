//! A range of ids reserved in the engine.

use crate::{Error, Result};
use porpoise_kv::{self as kv, CounterId, Engine};

/// The rest of a reserved range.
#[derive(Default)]
pub(super) struct Reserved {
    pub(super) next: u64,
    pub(super) end: u64,
}

impl Reserved {
    /// Ensures that `next..next + needed` is reserved, where `next` is not below `at_least`.
    /// Reserves `preferred` ids, or fewer if fewer are left.
    pub(super) fn refill(
        &mut self,
        engine: &dyn Engine,
        id: CounterId,
        needed: u64,
        preferred: u64,
        at_least: u64,
    ) -> Result<()> {
        let at_least = at_least.max(1);
        let needed = needed.max(1);
        let range = match engine.reserve_ids(id, preferred.max(needed), at_least) {
            // Near `u64::MAX` the rest of the previous range may still suffice.
            Err(kv::Error::Full(kv::Resource::Ids)) => {
                let left = if self.next >= at_least {
                    self.end.saturating_sub(self.next)
                } else {
                    0
                };
                engine.reserve_ids(id, needed.saturating_sub(left).max(1), at_least)
            }
            done => done,
        };
        let range = match range {
            Ok(range) => range,
            Err(kv::Error::Full(kv::Resource::Ids)) => return Err(Error::AutoIncrementExhausted),
            Err(e) => return Err(e.into()),
        };
        if range.start == self.end && self.next >= at_least && self.next < self.end {
            self.end = range.end;
        } else {
            self.next = range.start;
            self.end = range.end;
        }
        Ok(())
    }

    /// Raises the engine's counter to `next`, and reserves up to `ahead` ids from there. If no id
    /// is left, because an explicit value was the last possible one, only raises the counter.
    pub(super) fn raise(
        &mut self,
        engine: &dyn Engine,
        id: CounterId,
        ahead: u64,
        next: u64,
    ) -> Result<()> {
        match self.refill(engine, id, 1, ahead, next) {
            Err(Error::AutoIncrementExhausted) => {}
            done => return done,
        }
        (self.next, self.end) = (next, next);
        match engine.reserve_ids(id, 1, next.saturating_sub(1).max(1)) {
            Ok(_) | Err(kv::Error::Full(kv::Resource::Ids)) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}
