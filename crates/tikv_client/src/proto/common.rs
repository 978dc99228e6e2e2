//! Regions, stores, and the errors that a store's response carries.

/// Version of a region: changes when its peers (`conf_ver`) or its range (`version`) do.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct RegionEpoch {
    #[prost(uint64, tag = "1")]
    pub conf_ver: u64,
    #[prost(uint64, tag = "2")]
    pub version: u64,
}

/// A replica of a region.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct Peer {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(uint64, tag = "2")]
    pub store_id: u64,
    /// 1 is a learner, which serves no requests.
    #[prost(int32, tag = "3")]
    pub role: i32,
    #[prost(bool, tag = "4")]
    pub is_witness: bool,
}

/// A region as the placement driver and the stores describe it: borders are encoded keys.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct MetaRegion {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(bytes = "vec", tag = "2")]
    pub start_key: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub end_key: Vec<u8>,
    #[prost(message, optional, tag = "4")]
    pub region_epoch: Option<RegionEpoch>,
    #[prost(message, repeated, tag = "5")]
    pub peers: Vec<Peer>,
}

/// A store.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Store {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(string, tag = "2")]
    pub address: String,
    #[prost(int32, tag = "3")]
    pub state: i32,
    #[prost(message, repeated, tag = "4")]
    pub labels: Vec<StoreLabel>,
    #[prost(string, tag = "5")]
    pub version: String,
}

/// A property of a store.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StoreLabel {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

impl Store {
    /// Whether it is a columnar replica (TiFlash), which serves none of these requests.
    pub(crate) fn is_columnar(&self) -> bool {
        (self.labels.iter()).any(|l| l.key == "engine" && l.value.starts_with("tiflash"))
    }
}

/// Values of [`Store::state`].
pub(crate) mod store_state {
    pub(crate) const TOMBSTONE: i32 = 2;
}

/// Values of [`super::Mutation::op`] and [`LockInfo::lock_type`].
pub(crate) mod op {
    pub(crate) const PUT: i32 = 0;
    pub(crate) const DELETE: i32 = 1;
    pub(crate) const LOCK: i32 = 2;
    pub(crate) const PESSIMISTIC_LOCK: i32 = 5;
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct NotLeader {
    #[prost(uint64, tag = "1")]
    pub region_id: u64,
    #[prost(message, optional, tag = "2")]
    pub leader: Option<Peer>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct EpochNotMatch {
    #[prost(message, repeated, tag = "1")]
    pub current_regions: Vec<MetaRegion>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ServerIsBusy {
    #[prost(string, tag = "1")]
    pub reason: String,
    #[prost(uint64, tag = "2")]
    pub backoff_ms: u64,
}

/// A message whose fields are not read.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct Present {}

/// A refusal by the region's peer: nothing was done.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RegionError {
    #[prost(string, tag = "1")]
    pub message: String,
    #[prost(message, optional, tag = "2")]
    pub not_leader: Option<NotLeader>,
    #[prost(message, optional, tag = "3")]
    pub region_not_found: Option<Present>,
    #[prost(message, optional, tag = "4")]
    pub key_not_in_region: Option<Present>,
    #[prost(message, optional, tag = "5")]
    pub epoch_not_match: Option<EpochNotMatch>,
    #[prost(message, optional, tag = "6")]
    pub server_is_busy: Option<ServerIsBusy>,
    #[prost(message, optional, tag = "7")]
    pub stale_command: Option<Present>,
    #[prost(message, optional, tag = "8")]
    pub store_not_match: Option<Present>,
    #[prost(message, optional, tag = "9")]
    pub raft_entry_too_large: Option<Present>,
    #[prost(message, optional, tag = "10")]
    pub max_timestamp_not_synced: Option<Present>,
    #[prost(message, optional, tag = "11")]
    pub read_index_not_ready: Option<Present>,
    #[prost(message, optional, tag = "12")]
    pub proposal_in_merging_mode: Option<Present>,
    #[prost(message, optional, tag = "14")]
    pub region_not_initialized: Option<Present>,
    #[prost(message, optional, tag = "15")]
    pub disk_full: Option<Present>,
    #[prost(message, optional, tag = "16")]
    pub recovery_in_progress: Option<Present>,
    #[prost(message, optional, tag = "20")]
    pub mismatch_peer_id: Option<Present>,
    #[prost(message, optional, tag = "22")]
    pub undetermined_result: Option<Present>,
}

/// A lock as a store reports it.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LockInfo {
    #[prost(bytes = "vec", tag = "1")]
    pub primary_lock: Vec<u8>,
    #[prost(uint64, tag = "2")]
    pub lock_version: u64,
    #[prost(bytes = "vec", tag = "3")]
    pub key: Vec<u8>,
    #[prost(uint64, tag = "4")]
    pub lock_ttl: u64,
    #[prost(uint64, tag = "5")]
    pub txn_size: u64,
    #[prost(int32, tag = "6")]
    pub lock_type: i32,
    #[prost(uint64, tag = "7")]
    pub lock_for_update_ts: u64,
    #[prost(bool, tag = "8")]
    pub use_async_commit: bool,
    #[prost(uint64, tag = "9")]
    pub min_commit_ts: u64,
    #[prost(bytes = "vec", repeated, tag = "10")]
    pub secondaries: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct WriteConflict {
    #[prost(uint64, tag = "1")]
    pub start_ts: u64,
    #[prost(uint64, tag = "2")]
    pub conflict_ts: u64,
    #[prost(bytes = "vec", tag = "3")]
    pub key: Vec<u8>,
    #[prost(uint64, tag = "5")]
    pub conflict_commit_ts: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CommitTsExpired {
    #[prost(uint64, tag = "4")]
    pub min_commit_ts: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TxnNotFound {
    #[prost(uint64, tag = "1")]
    pub start_ts: u64,
    #[prost(bytes = "vec", tag = "2")]
    pub primary_key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PrimaryMismatch {
    #[prost(message, optional, tag = "1")]
    pub lock_info: Option<LockInfo>,
}

/// A refusal because of the state of a key.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct KeyError {
    #[prost(message, optional, tag = "1")]
    pub locked: Option<LockInfo>,
    #[prost(string, tag = "2")]
    pub retryable: String,
    #[prost(string, tag = "3")]
    pub abort: String,
    #[prost(message, optional, tag = "4")]
    pub conflict: Option<WriteConflict>,
    #[prost(message, optional, tag = "5")]
    pub already_exist: Option<Present>,
    #[prost(message, optional, tag = "6")]
    pub deadlock: Option<Present>,
    #[prost(message, optional, tag = "7")]
    pub commit_ts_expired: Option<CommitTsExpired>,
    #[prost(message, optional, tag = "8")]
    pub txn_not_found: Option<TxnNotFound>,
    #[prost(message, optional, tag = "9")]
    pub commit_ts_too_large: Option<Present>,
    #[prost(message, optional, tag = "10")]
    pub assertion_failed: Option<Present>,
    #[prost(message, optional, tag = "11")]
    pub primary_mismatch: Option<PrimaryMismatch>,
}
