//! Groups of log records on their way to disk.
//!
//! Group commit with several syncs in flight: while one group is synced, another thread writes and syncs
//! the next. Syncs may end in any order. A group is durable when it and every group before it are synced, so
//! that the durable position is one number that only grows:
//!
//! ```text
//! group        1        2        3
//! written      ok       ok       ok
//! synced       ...      ok       ...     nothing is durable: group 1 is not
//! synced       ok       ok       ...     1 and 2 are durable, their commits are answered
//! ```
//!
//! [`delay`] decides when a group begins.
//!
//! Invariants:
//! 1. A group leaves the queue as durable only after its own sync and those of all groups before it.
//! 2. Groups are written in the order of the queue, one at a time.
//!
//! Rejected: taking the end of a later sync as proof that earlier groups are durable, as POSIX permits. The
//! kernel may report a failed write-back to one caller only, and the later sync could then succeed although the
//! earlier group is lost.

pub(crate) mod delay;

use std::collections::VecDeque;

/// Number of syncs that can be in flight, each in a thread of its own. More gain little: with N, a group waits
/// for the next end of a sync for at most an Nth of a sync. Two in model tests, for fewer schedules.
pub(crate) const SYNCS_IN_FLIGHT: usize = if cfg!(shuttle) { 2 } else { 4 };

/// The state of the log after a group: what is durable once the group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupEnd {
    /// Log position after the group.
    pub(crate) position: u64,
    /// Timestamp up to which all commits are in this group, in an earlier one, or not logged.
    pub(crate) ts: u64,
    /// Number of the group in the log.
    pub(crate) number: u64,
}

/// Groups that became durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DurableGroups {
    pub(crate) end: GroupEnd,
    /// Number of commits in the groups.
    pub(crate) commits: u64,
}

/// Identifies a group in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupTicket(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Writing,
    Written,
    Synced(GroupEnd),
}

#[derive(Debug)]
struct InFlight {
    ticket: GroupTicket,
    commits: u64,
    stage: Stage,
}

/// Groups that were begun and are not durable yet, in the order of the log.
#[derive(Debug, Default)]
pub(crate) struct GroupsInFlight {
    groups: VecDeque<InFlight>,
    next_ticket: u64,
}

impl GroupsInFlight {
    /// Begins a group. The group before it has been written.
    pub(crate) fn begin(&mut self, commits: u64) -> GroupTicket {
        let ticket = GroupTicket(self.next_ticket);
        self.next_ticket += 1;
        self.groups.push_back(InFlight {
            ticket,
            commits,
            stage: Stage::Writing,
        });
        ticket
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Whether a group is being written.
    pub(crate) fn is_writing(&self) -> bool {
        let last = self.groups.back();
        last.is_some_and(|group| group.stage == Stage::Writing)
    }

    /// Whether no group was begun after this one.
    pub(crate) fn is_newest(&self, ticket: GroupTicket) -> bool {
        ticket.0 + 1 == self.next_ticket
    }

    /// Records that a group is written.
    pub(crate) fn finish_write(&mut self, ticket: GroupTicket) {
        self.set_stage(ticket, Stage::Written);
    }

    /// Records that a group is synced. Returns the groups that have become durable by it.
    pub(crate) fn finish_sync(
        &mut self,
        ticket: GroupTicket,
        end: GroupEnd,
    ) -> Option<DurableGroups> {
        self.set_stage(ticket, Stage::Synced(end));
        let (mut durable, mut commits) = (None, 0);
        while let Some(InFlight {
            stage: Stage::Synced(end),
            commits: more,
            ..
        }) = self.groups.front()
        {
            commits += more;
            durable = Some(DurableGroups { end: *end, commits });
            self.groups.pop_front();
        }
        durable
    }

    /// Removes a group that is not synced now: the sync of a later group will cover it.
    pub(crate) fn leave_unsynced(&mut self, ticket: GroupTicket) {
        self.groups.retain(|group| group.ticket != ticket);
    }

    fn set_stage(&mut self, ticket: GroupTicket, stage: Stage) {
        if let Some(group) = self.groups.iter_mut().find(|group| group.ticket == ticket) {
            group.stage = stage;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(number: u64) -> GroupEnd {
        GroupEnd {
            position: number * 100,
            ts: number * 10,
            number,
        }
    }

    fn durable(number: u64, commits: u64) -> Option<DurableGroups> {
        let end = end(number);
        Some(DurableGroups { end, commits })
    }

    #[test]
    fn a_group_is_durable_after_all_groups_before_it() {
        let mut groups = GroupsInFlight::default();
        let tickets = [1, 2, 3, 4].map(|commits| {
            let ticket = groups.begin(commits);
            assert!(groups.is_writing() && groups.is_newest(ticket));
            groups.finish_write(ticket);
            assert!(!groups.is_writing());
            ticket
        });
        assert_eq!(groups.finish_sync(tickets[1], end(2)), None);
        assert_eq!(groups.finish_sync(tickets[0], end(1)), durable(2, 1 + 2));
        assert_eq!(groups.finish_sync(tickets[3], end(4)), None);
        assert!(!groups.is_empty());
        assert_eq!(groups.finish_sync(tickets[2], end(3)), durable(4, 3 + 4));
        assert!(groups.is_empty());
    }

    #[test]
    fn nothing_is_durable_after_a_group_whose_sync_failed() {
        let mut groups = GroupsInFlight::default();
        let _failed = groups.begin(1);
        let later = groups.begin(1);
        assert_eq!(groups.finish_sync(later, end(2)), None);
        assert!(!groups.is_empty());
    }
}
