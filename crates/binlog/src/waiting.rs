//! Acknowledgement as connections of replicas, settings and metrics use it. The rules are in [`crate::acknowledge`].

use crate::acknowledge::{AckPolicy, GroupPolicy};
use crate::file::file_number;
use crate::log::{BinaryLog, State};
use crate::{Error, Result};
use porpoise_kv::Stat;
use porpoise_replication::election::following::{MemberProgress, Place};
use porpoise_rows::changes::AckStatus;
use std::sync::Arc;
use std::time::Instant;

/// A connected replica that acknowledges; it counts as disconnected when this is dropped.
pub(crate) struct AckConnection {
    log: Arc<BinaryLog>,
    server_id: u32,
    number: u64,
}

impl AckConnection {
    /// Records that the replica has everything up to a place on its disk.
    ///
    /// # Errors
    /// [`Error::Refused`] if the name is not that of a file of the log.
    pub(crate) fn acknowledge(&self, file: &str, position: u64) -> Result<()> {
        let number = file_number(file);
        let number = number.ok_or_else(|| {
            Error::Refused(format!(
                "acknowledgement of {file:?}, which is no file of the log"
            ))
        })?;
        self.acknowledge_place((number, position));
        Ok(())
    }

    pub(crate) fn acknowledge_place(&self, place: Place) {
        let log = &self.log;
        let mut state = log.state.lock();
        let end = (state.files.last().map_or(0, |file| file.number), state.end);
        if place > end {
            // The place is in a file that was removed by a reset.
            return;
        }
        state.acks.acknowledge(self.server_id, self.number, place);
        let last = state.acks.take_reached(Instant::now());
        if let (Some(engine), true) = (log.ack_engine.get(), state.acks.recovers(end)) {
            tracing::info!("replicas have caught up: commits wait for their acknowledgement again");
            if let Err(error) = engine.require_acknowledgement(true) {
                tracing::error!(%error, "commits cannot wait for acknowledgements");
            }
        }
        if let (Some(commit), Some(engine)) = (last, log.ack_engine.get()) {
            engine.acknowledge(commit);
        }
    }
}

impl Drop for AckConnection {
    fn drop(&mut self) {
        let mut state = self.log.state.lock();
        state.acks.disconnect(self.server_id, self.number);
    }
}

impl BinaryLog {
    /// Sets the policy by which commits wait for acknowledgements from now on.
    ///
    /// # Errors
    /// The engine cannot withhold commits.
    pub fn set_ack_policy(&self, policy: AckPolicy) -> Result<()> {
        let mut state = self.state.lock();
        state.acks.policy = policy;
        state.acks.is_degraded = false;
        self.apply_ack_rules(&mut state)
    }

    /// Sets the acknowledgements that the server's group requires from now on; `None`: none. Returns the end of the log:
    /// commits that were released by earlier rules lie before it.
    ///
    /// # Errors
    /// The engine cannot withhold commits.
    pub fn set_group_policy(&self, policy: Option<GroupPolicy>) -> Result<(u64, u64)> {
        let mut state = self.state.lock();
        state.acks.set_group(policy);
        self.apply_ack_rules(&mut state)?;
        Ok((state.files.last().map_or(0, |file| file.number), state.end))
    }

    fn apply_ack_rules(&self, state: &mut State) -> Result<()> {
        let Some(engine) = self.ack_engine.get() else {
            return Ok(());
        };
        if state.acks.waits() {
            engine.require_acknowledgement(true)?;
            if let Some(commit) = state.acks.take_reached(Instant::now()) {
                engine.acknowledge(commit);
            }
        } else {
            state.acks.waiting.clear();
            engine.require_acknowledgement(false)?;
        }
        Ok(())
    }

    /// The progress of a member of the group, and the end of the log.
    pub fn member_progress(&self, member: u32) -> (MemberProgress, (u64, u64)) {
        let state = self.state.lock();
        let end = (state.files.last().map_or(0, |file| file.number), state.end);
        let progress = MemberProgress {
            rate: state.flow.rate(member),
            ..state.acks.progress(member, Instant::now())
        };
        (progress, end)
    }

    /// The present policy.
    pub fn ack_policy(&self) -> AckPolicy {
        self.state.lock().acks.policy.clone()
    }

    /// State and counters.
    pub fn ack_status(&self) -> AckStatus {
        let state = self.state.lock();
        let acks = &state.acks;
        let connected = acks.replicas.values().filter(|r| r.connection.is_some());
        AckStatus {
            is_waiting_mode: acks.waits(),
            clients: connected.count() as u64,
            waiting: acks.waiting.len() as u64,
            ..acks.status
        }
    }

    /// Registers a connected replica that acknowledges and has everything before `place`.
    pub(crate) fn connect_acknowledger(
        self: &Arc<Self>,
        server_id: u32,
        incarnation: u64,
        place: Place,
    ) -> AckConnection {
        // It may have been rebuilt since.
        let number = self
            .state
            .lock()
            .acks
            .connect(server_id, incarnation, (0, 0));
        let connection = AckConnection {
            log: self.clone(),
            server_id,
            number,
        };
        connection.acknowledge_place(place);
        connection
    }

    /// Releases commits that have waited for too long. The writer calls it between its passes.
    pub(crate) fn check_ack_timeout(&self) {
        let mut state = self.state.lock();
        if !state.acks.times_out(Instant::now()) {
            return;
        }
        tracing::warn!(
            "no replica has acknowledged within rpl_semi_sync_source_timeout: commits pass without acknowledgement until one has caught up"
        );
        if let Err(error) = self.apply_ack_rules(&mut state) {
            tracing::error!(%error, "commits cannot pass without acknowledgement");
        }
    }

    /// Metrics of acknowledgement.
    pub(crate) fn ack_stats(&self) -> Vec<Stat> {
        let status = self.ack_status();
        let stat = |name, help, counter, value| Stat {
            name,
            help,
            counter,
            value,
        };
        vec![
            stat(
                "replication_ack_is_on",
                "Whether commits wait for the acknowledgement of replicas at present.",
                false,
                u64::from(status.is_waiting_mode),
            ),
            stat(
                "replication_ack_replicas",
                "Connected replicas that acknowledge.",
                false,
                status.clients,
            ),
            stat(
                "replication_ack_waiting",
                "Commits that wait for an acknowledgement.",
                false,
                status.waiting,
            ),
            stat(
                "replication_ack_commits_total",
                "Commits that were acknowledged by replicas.",
                true,
                status.acknowledged,
            ),
            stat(
                "replication_ack_passed_total",
                "Commits that passed without acknowledgement after a timeout.",
                true,
                status.passed,
            ),
            stat(
                "replication_ack_timeouts_total",
                "Number of times that commits ceased to wait, because no replica acknowledged in time.",
                true,
                status.timeouts,
            ),
            stat(
                "replication_ack_wait_microseconds_total",
                "Total time in which commits have waited for replicas.",
                true,
                status.wait_micros,
            ),
        ]
    }
}
