//! Derives from the progress of the other servers the inputs `Replicates`, `CaughtUp` and `Stalls` of a leader's state machine.
//!
//! Invariant: only acknowledgements of a member's present data count. It has caught up once they reach the end that the log had
//! when its acknowledgement was first required.

use super::{Input, MemberId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Position in the binary log: number of the file, and offset.
pub type Place = (u64, u64);

/// Progress of a member that follows the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberProgress {
    /// Whether it is connected.
    pub is_connected: bool,
    /// Number of its data.
    pub incarnation: u64,
    /// Position up to which it has acknowledged.
    pub place: Place,
    /// Time for which the oldest waiting commit has waited, if it waits for this member.
    pub behind: Option<Duration>,
    /// Bytes of the log that it acknowledges in a second while it catches up, if that was measured.
    pub rate: Option<u64>,
}

impl MemberProgress {
    /// Maximum number of bytes of the log that the member may lack when commits begin to wait for it. Commits then wait until
    /// it has acknowledged them, which takes a quarter of a second at its rate.
    fn small_lag(&self, limits: &FollowLimits) -> u64 {
        let small = self.rate.map(|rate| (rate / 4).max(LEAST_LAG));
        small.map_or(limits.small_lag, |small| small.min(limits.small_lag))
    }
}

/// Least lag, in bytes of the log, at which commits may begin to wait for a member.
const LEAST_LAG: u64 = 32 << 10;

/// Limits by which a member is added to the view or removed from it.
#[derive(Clone, Debug)]
pub struct FollowLimits {
    /// Bytes of the log that a member may lack at most when commits begin to wait for it.
    pub small_lag: u64,
    /// Time for which a member may be disconnected.
    pub silence: u64,
    /// Time for which a member that is connected may keep commits waiting.
    pub stall: Duration,
}

/// A leader's state about the servers that follow it. Times are in milliseconds, by the clock of the caller.
#[derive(Debug)]
pub struct Following {
    limits: FollowLimits,
    since: u64,
    /// When each server was last connected.
    connected: BTreeMap<MemberId, u64>,
    /// Members whose acknowledgements are required, each with the end of the log when that began.
    required: BTreeMap<MemberId, Place>,
}

impl Following {
    /// State of a leader whose epoch begins now.
    #[must_use]
    pub fn new(limits: FollowLimits, now: u64) -> Following {
        Following {
            limits,
            since: now,
            connected: BTreeMap::new(),
            required: BTreeMap::new(),
        }
    }

    /// Commits after `end` require the acknowledgements of these members.
    pub fn require(&mut self, members: &BTreeSet<MemberId>, end: Place) {
        let before = std::mem::take(&mut self.required);
        let target = |id: &MemberId| (*id, before.get(id).copied().unwrap_or(end));
        self.required = members.iter().map(target).collect();
    }

    /// The inputs for a server. `incarnation`: the number of its data, as the state machine knows it; `end`: the present end of the
    /// log.
    pub fn observe(
        &mut self,
        server: MemberId,
        incarnation: Option<u64>,
        progress: &MemberProgress,
        end: Place,
        now: u64,
    ) -> Vec<Input> {
        if !progress.is_connected || incarnation != Some(progress.incarnation) {
            let last = self.connected.get(&server).copied().unwrap_or(self.since);
            let is_absent = now.saturating_sub(last) >= self.limits.silence;
            return Vec::from_iter(is_absent.then_some(Input::Stalls(server)));
        }
        self.connected.insert(server, now);
        let mut inputs = Vec::new();
        let target = self.required.get(&server);
        if target.is_some_and(|target| progress.place >= *target) {
            inputs.push(Input::CaughtUp(server));
        }
        let stalls = progress
            .behind
            .is_some_and(|time| time >= self.limits.stall);
        let lag = end.1.saturating_sub(progress.place.1);
        if stalls && target.is_some() {
            inputs.push(Input::Stalls(server));
        } else if progress.place.0 == end.0 && lag <= progress.small_lag(&self.limits) {
            inputs.push(Input::Replicates(server));
        } else if target.is_none() {
            // It was close when it was left out, and is so no longer: commits would wait until it has caught up.
            inputs.push(Input::Stalls(server));
        }
        inputs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: Place = (1, 1000);

    fn following() -> Following {
        let limits = FollowLimits {
            small_lag: 100,
            silence: 50,
            stall: Duration::from_millis(80),
        };
        let mut following = Following::new(limits, 10);
        following.require(&[2].into(), END);
        following
    }

    fn progress(place: Place, behind: u64) -> MemberProgress {
        MemberProgress {
            is_connected: true,
            incarnation: 7,
            place,
            behind: (behind > 0).then(|| Duration::from_millis(behind)),
            rate: None,
        }
    }

    #[test]
    fn a_member_is_caught_up_at_the_end_that_the_log_had_when_it_was_required() {
        let mut following = following();
        let end = (1, 1050);
        let mut at = |place| following.observe(2, Some(7), &progress(place, 0), end, 20);
        assert_eq!(at((1, 900)), []);
        assert_eq!(at((1, 960)), [Input::Replicates(2)]);
        assert_eq!(at(END), [Input::CaughtUp(2), Input::Replicates(2)]);
        // Requiring it again does not move its target, unless it was not required in between.
        following.require(&[2, 3].into(), end);
        let inputs = following.observe(2, Some(7), &progress(END, 0), end, 20);
        assert!(inputs.contains(&Input::CaughtUp(2)));
        following.require(&[3].into(), end);
        following.require(&[2, 3].into(), end);
        let inputs = following.observe(2, Some(7), &progress(END, 0), end, 20);
        assert_eq!(inputs, [Input::Replicates(2)]);
    }

    #[test]
    fn commits_begin_to_wait_for_a_member_that_catches_up_in_a_moment() {
        let limits = FollowLimits {
            small_lag: 1 << 20,
            silence: 50,
            stall: Duration::from_millis(80),
        };
        let lags = [
            (None, 1 << 20),
            (Some(1000), LEAST_LAG),
            (Some(1 << 20), 1 << 18),
            (Some(1 << 30), 1 << 20),
        ];
        for (rate, expected) in lags {
            let progress = MemberProgress {
                rate,
                ..progress(END, 0)
            };
            assert_eq!(progress.small_lag(&limits), expected, "{rate:?}");
        }
    }

    #[test]
    fn a_member_that_falls_back_after_it_was_close_is_not_required() {
        let mut following = following();
        following.require(&BTreeSet::new(), END);
        let mut at = |end| following.observe(2, Some(7), &progress((1, 950), 0), end, 20);
        assert_eq!(at(END), [Input::Replicates(2)]);
        assert_eq!(at((1, 2000)), [Input::Stalls(2)]);
        assert_eq!(at((2, 100)), [Input::Stalls(2)]);
    }

    #[test]
    fn a_member_stalls_that_is_absent_or_keeps_commits_waiting() {
        let mut following = following();
        let absent = MemberProgress {
            is_connected: false,
            ..progress(END, 0)
        };
        assert_eq!(following.observe(2, Some(7), &absent, END, 40), []);
        assert_eq!(
            following.observe(2, Some(7), &absent, END, 60),
            [Input::Stalls(2)]
        );
        // Acknowledgements of discarded data do not count.
        let former = following.observe(2, Some(8), &progress(END, 0), END, 40);
        assert_eq!(former, []);
        let slow = following.observe(2, Some(7), &progress((1, 950), 80), END, 70);
        assert_eq!(slow, [Input::Stalls(2)]);
        assert_eq!(following.observe(2, Some(7), &absent, END, 110), []);
    }
}
