//! Counters of a run.

/// Counters of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Steps of transactions whose results were compared.
    pub answers: u64,
    /// Commits with writes.
    pub commits: u64,
    /// Transactions prepared.
    pub prepared: u64,
    /// Prepared transactions committed or rolled back.
    pub ended: u64,
    /// Of those, how many were prepared before the last crash.
    pub ended_after_crash: u64,
    /// Crashes, each followed by a checked recovery.
    pub crashes: u64,
    /// Copies that crashed during an operation of the disk, and were checked.
    pub copies: u64,
    /// Starts that were refused because of a damaged disk.
    pub refused: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
}

impl Report {
    /// Adds what another run has seen.
    pub fn add(&mut self, other: Report) {
        self.answers += other.answers;
        self.commits += other.commits;
        self.prepared += other.prepared;
        self.ended += other.ended;
        self.ended_after_crash += other.ended_after_crash;
        self.crashes += other.crashes;
        self.copies += other.copies;
        self.refused += other.refused;
        self.checkpoints += other.checkpoints;
    }
}
