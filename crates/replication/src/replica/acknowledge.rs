//! Acknowledgements that a source has requested, until what they acknowledge is on the disk of this server.
//!
//! While further events are at hand, the replica applies them, and acknowledges what the log of the engine has reached
//! meanwhile: one sync serves many transactions. Only when nothing is left to be applied it waits for the sync.
//!
//! ```text
//! events   T1? T2 T3? T4 T5?          (?: an acknowledgement is requested)
//! applied  T1  T2 T3  T4 T5
//! synced          T2         T5
//! sent             T1         T5
//! ```
//!
//! Invariant: a place is acknowledged only when every transaction before it is on this server's disk.

use super::Ended;
use crate::follow::{FollowError, Follower};
use crate::position::Coordinates;
use crate::source::SourceStream;
use porpoise_kv::CommitPosition;
use std::collections::VecDeque;

/// A requested acknowledgement.
struct Request {
    place: Coordinates,
    /// The commit of the last transaction before the place; `None` while workers apply some of them.
    commit: Option<CommitPosition>,
}

/// The requests that are open, oldest first.
#[derive(Default)]
pub(super) struct Acknowledgements {
    requests: VecDeque<Request>,
}

impl Acknowledgements {
    /// Records that the source has requested an acknowledgement with the last event.
    pub(super) fn request(&mut self, follower: &Follower) {
        self.requests.push_back(Request {
            place: follower.read().clone(),
            commit: follower.commit_of_read(),
        });
    }

    /// Sends what can be acknowledged. Waits for the disk if no event is at hand.
    pub(super) fn send(
        &mut self,
        stream: &mut SourceStream,
        follower: &Follower,
    ) -> Result<(), Ended> {
        let Some(last) = self.requests.back() else {
            return Ok(());
        };
        let place = if stream.has_input() {
            self.take_durable(follower).map_err(Ended::Apply)?
        } else {
            follower.wait_durable().map_err(Ended::Apply)?;
            let place = last.place.clone();
            self.requests.clear();
            Some(place)
        };
        match place {
            Some(place) => stream.acknowledge(&place).map_err(Ended::Source),
            None => Ok(()),
        }
    }

    /// Removes the requests whose transactions are on disk. Returns the place of the last one.
    fn take_durable(&mut self, follower: &Follower) -> Result<Option<Coordinates>, FollowError> {
        let mut place = None;
        while let Some(first) = self.requests.front_mut() {
            if first.commit.is_none() {
                first.commit = follower.commit_before(&first.place)?;
            }
            if !first
                .commit
                .is_some_and(|commit| follower.is_durable(commit))
            {
                break;
            }
            place = self.requests.pop_front().map(|request| request.place);
        }
        Ok(place)
    }
}
