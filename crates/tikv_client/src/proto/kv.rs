//! Requests to a store (package `kvrpcpb`).

use super::common::{KeyError, LockInfo, Peer, RegionEpoch, RegionError};

/// Destination of a request, and how it is to be executed.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Context {
    #[prost(uint64, tag = "1")]
    pub region_id: u64,
    #[prost(message, optional, tag = "2")]
    pub region_epoch: Option<RegionEpoch>,
    #[prost(message, optional, tag = "3")]
    pub peer: Option<Peer>,
    /// Transactions whose locks a read ignores: they commit above its timestamp, or never.
    #[prost(uint64, repeated, tag = "13")]
    pub resolved_locks: Vec<u64>,
    #[prost(uint64, tag = "14")]
    pub max_execution_duration_ms: u64,
    /// Set when the same request may have arrived before.
    #[prost(bool, tag = "20")]
    pub is_retry_request: bool,
    /// Transactions whose locks a read takes as committed: they committed below its timestamp.
    #[prost(uint64, repeated, tag = "22")]
    pub committed_locks: Vec<u64>,
    #[prost(string, tag = "24")]
    pub request_source: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct GetRequest {
    #[prost(message, optional, tag = "1")]
    pub context: Option<Context>,
    #[prost(bytes = "vec", tag = "2")]
    pub key: Vec<u8>,
    #[prost(uint64, tag = "3")]
    pub version: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct GetResponse {
    #[prost(message, optional, tag = "1")]
    pub region_error: Option<RegionError>,
    #[prost(message, optional, tag = "2")]
    pub error: Option<KeyError>,
    #[prost(bytes = "vec", tag = "3")]
    pub value: Vec<u8>,
    #[prost(bool, tag = "4")]
    pub not_found: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct KvPair {
    #[prost(message, optional, tag = "1")]
    pub error: Option<KeyError>,
    #[prost(bytes = "vec", tag = "2")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub value: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct BatchGetRequest {
    #[prost(message, optional, tag = "1")]
    pub context: Option<Context>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub keys: Vec<Vec<u8>>,
    #[prost(uint64, tag = "3")]
    pub version: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct BatchGetResponse {
    #[prost(message, optional, tag = "1")]
    pub region_error: Option<RegionError>,
    #[prost(message, repeated, tag = "2")]
    pub pairs: Vec<KvPair>,
    #[prost(message, optional, tag = "5")]
    pub error: Option<KeyError>,
}

/// In descending order `start_key` is the exclusive upper border and `end_key` the inclusive lower one.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ScanRequest {
    #[prost(message, optional, tag = "1")]
    pub context: Option<Context>,
    #[prost(bytes = "vec", tag = "2")]
    pub start_key: Vec<u8>,
    #[prost(uint32, tag = "3")]
    pub limit: u32,
    #[prost(uint64, tag = "4")]
    pub version: u64,
    #[prost(bool, tag = "5")]
    pub key_only: bool,
    #[prost(bool, tag = "6")]
    pub reverse: bool,
    #[prost(bytes = "vec", tag = "7")]
    pub end_key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ScanResponse {
    #[prost(message, optional, tag = "1")]
    pub region_error: Option<RegionError>,
    #[prost(message, repeated, tag = "2")]
    pub pairs: Vec<KvPair>,
    #[prost(message, optional, tag = "3")]
    pub error: Option<KeyError>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Mutation {
    #[prost(int32, tag = "1")]
    pub op: i32,
    #[prost(bytes = "vec", tag = "2")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub value: Vec<u8>,
}

/// Values of [`PrewriteRequest::pessimistic_actions`].
pub(crate) mod pessimistic_action {
    /// The key has no pessimistic lock and its newer versions are not looked at.
    pub(crate) const SKIP: i32 = 0;
    /// The key must have the transaction's pessimistic lock.
    pub(crate) const CHECK_LOCK: i32 = 1;
    /// The key has no pessimistic lock and must have no version above the transaction's start.
    pub(crate) const CHECK_VERSION: i32 = 2;
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PrewriteRequest {
    #[prost(message, optional, tag = "1")]
    pub context: Option<Context>,
    #[prost(message, repeated, tag = "2")]
    pub mutations: Vec<Mutation>,
    #[prost(bytes = "vec", tag = "3")]
    pub primary_lock: Vec<u8>,
    #[prost(uint64, tag = "4")]
    pub start_version: u64,
    #[prost(uint64, tag = "5")]
    pub lock_ttl: u64,
    #[prost(int32, repeated, tag = "7")]
    pub pessimistic_actions: Vec<i32>,
    #[prost(uint64, tag = "8")]
    pub txn_size: u64,
    #[prost(uint64, tag = "9")]
    pub for_update_ts: u64,
    #[prost(uint64, tag = "10")]
    pub min_commit_ts: u64,
    #[prost(bool, tag = "11")]
    pub use_async_commit: bool,
    #[prost(bytes = "vec", repeated, tag = "12")]
    pub secondaries: Vec<Vec<u8>>,
    #[prost(bool, tag = "13")]
    pub try_one_pc: bool,
    #[prost(uint64, tag = "14")]
    pub max_commit_ts: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PrewriteResponse {
    #[prost(message, optional, tag = "1")]
    pub region_error: Option<RegionError>,
    #[prost(message, repeated, tag = "2")]
    pub errors: Vec<KeyError>,
    /// 0 if the store did not use asynchronous commit.
    #[prost(uint64, tag = "3")]
    pub min_commit_ts: u64,
    /// 0 if the store did not commit in one phase.
    #[prost(uint64, tag = "4")]
    pub one_pc_commit_ts: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CommitRequest {
    #[prost(message, optional, tag = "1")]
    pub context: Option<Context>,
    #[prost(uint64, tag = "2")]
    pub start_version: u64,
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub keys: Vec<Vec<u8>>,
    #[prost(uint64, tag = "4")]
    pub commit_version: u64,
}

/// Response of the requests that return nothing but errors.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PlainResponse {
    #[prost(message, optional, tag = "1")]
    pub region_error: Option<RegionError>,
    #[prost(message, optional, tag = "2")]
    pub error: Option<KeyError>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct BatchRollbackRequest {
    #[prost(message, optional, tag = "1")]
    pub context: Option<Context>,
    #[prost(uint64, tag = "2")]
    pub start_version: u64,
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub keys: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ResolveLockRequest {
    #[prost(message, optional, tag = "1")]
    pub context: Option<Context>,
    #[prost(uint64, tag = "2")]
    pub start_version: u64,
    /// 0 rolls the transaction back.
    #[prost(uint64, tag = "3")]
    pub commit_version: u64,
    /// All keys of the region if empty.
    #[prost(bytes = "vec", repeated, tag = "5")]
    pub keys: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ScanLockRequest {
    #[prost(message, optional, tag = "1")]
    pub context: Option<Context>,
    #[prost(uint64, tag = "2")]
    pub max_version: u64,
    #[prost(bytes = "vec", tag = "3")]
    pub start_key: Vec<u8>,
    #[prost(uint32, tag = "4")]
    pub limit: u32,
    #[prost(bytes = "vec", tag = "5")]
    pub end_key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ScanLockResponse {
    #[prost(message, optional, tag = "1")]
    pub region_error: Option<RegionError>,
    #[prost(message, optional, tag = "2")]
    pub error: Option<KeyError>,
    #[prost(message, repeated, tag = "3")]
    pub locks: Vec<LockInfo>,
}

/// Value of [`PessimisticLockRequest::wake_up_mode`]: a waiter gets the lock although a newer version exists.
pub(crate) const FORCE_LOCK: i32 = 1;
/// Value of [`PessimisticLockRequest::wait_timeout`]: do not wait.
pub(crate) const NO_WAIT: i64 = -1;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PessimisticLockRequest {
    #[prost(message, optional, tag = "1")]
    pub context: Option<Context>,
    #[prost(message, repeated, tag = "2")]
    pub mutations: Vec<Mutation>,
    #[prost(bytes = "vec", tag = "3")]
    pub primary_lock: Vec<u8>,
    #[prost(uint64, tag = "4")]
    pub start_version: u64,
    #[prost(uint64, tag = "5")]
    pub lock_ttl: u64,
    #[prost(uint64, tag = "6")]
    pub for_update_ts: u64,
    #[prost(bool, tag = "7")]
    pub is_first_lock: bool,
    /// Milliseconds; 0 is the store's own limit.
    #[prost(int64, tag = "8")]
    pub wait_timeout: i64,
    #[prost(bool, tag = "10")]
    pub return_values: bool,
    #[prost(uint64, tag = "11")]
    pub min_commit_ts: u64,
    #[prost(bool, tag = "12")]
    pub check_existence: bool,
    #[prost(int32, tag = "14")]
    pub wake_up_mode: i32,
}

/// Result of [`FORCE_LOCK`] for one key.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PessimisticLockKeyResult {
    /// 2 is a failure.
    #[prost(int32, tag = "1")]
    pub kind: i32,
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
    #[prost(bool, tag = "3")]
    pub existence: bool,
    /// Commit timestamp of a version above the request's `for_update_ts`, or 0.
    #[prost(uint64, tag = "4")]
    pub locked_with_conflict_ts: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PessimisticLockResponse {
    #[prost(message, optional, tag = "1")]
    pub region_error: Option<RegionError>,
    #[prost(message, repeated, tag = "2")]
    pub errors: Vec<KeyError>,
    #[prost(bytes = "vec", repeated, tag = "5")]
    pub values: Vec<Vec<u8>>,
    #[prost(bool, repeated, tag = "6")]
    pub not_founds: Vec<bool>,
    #[prost(message, repeated, tag = "8")]
    pub results: Vec<PessimisticLockKeyResult>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PessimisticRollbackRequest {
    #[prost(message, optional, tag = "1")]
    pub context: Option<Context>,
    #[prost(uint64, tag = "2")]
    pub start_version: u64,
    /// Locks with a higher timestamp stay.
    #[prost(uint64, tag = "3")]
    pub for_update_ts: u64,
    #[prost(bytes = "vec", repeated, tag = "4")]
    pub keys: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PessimisticRollbackResponse {
    #[prost(message, optional, tag = "1")]
    pub region_error: Option<RegionError>,
    #[prost(message, repeated, tag = "2")]
    pub errors: Vec<KeyError>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TxnHeartBeatRequest {
    #[prost(message, optional, tag = "1")]
    pub context: Option<Context>,
    #[prost(bytes = "vec", tag = "2")]
    pub primary_lock: Vec<u8>,
    #[prost(uint64, tag = "3")]
    pub start_version: u64,
    #[prost(uint64, tag = "4")]
    pub advise_lock_ttl: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CheckTxnStatusRequest {
    #[prost(message, optional, tag = "1")]
    pub context: Option<Context>,
    #[prost(bytes = "vec", tag = "2")]
    pub primary_key: Vec<u8>,
    #[prost(uint64, tag = "3")]
    pub lock_ts: u64,
    /// A live transaction is made to commit above this timestamp; 0 leaves it alone.
    #[prost(uint64, tag = "4")]
    pub caller_start_ts: u64,
    /// The time by which the lock's age is judged.
    #[prost(uint64, tag = "5")]
    pub current_ts: u64,
    #[prost(bool, tag = "6")]
    pub rollback_if_not_exist: bool,
    #[prost(bool, tag = "7")]
    pub force_sync_commit: bool,
    #[prost(bool, tag = "8")]
    pub resolving_pessimistic_lock: bool,
    #[prost(bool, tag = "9")]
    pub verify_is_primary: bool,
}

/// Values of [`CheckTxnStatusResponse::action`].
pub(crate) mod action {
    pub(crate) const MIN_COMMIT_TS_PUSHED: i32 = 3;
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CheckTxnStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub region_error: Option<RegionError>,
    #[prost(message, optional, tag = "2")]
    pub error: Option<KeyError>,
    /// Above 0: the transaction is alive.
    #[prost(uint64, tag = "3")]
    pub lock_ttl: u64,
    /// Above 0: the transaction is committed.
    #[prost(uint64, tag = "4")]
    pub commit_version: u64,
    #[prost(int32, tag = "5")]
    pub action: i32,
    #[prost(message, optional, tag = "6")]
    pub lock_info: Option<LockInfo>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CheckSecondaryLocksRequest {
    #[prost(message, optional, tag = "1")]
    pub context: Option<Context>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub keys: Vec<Vec<u8>>,
    #[prost(uint64, tag = "3")]
    pub start_version: u64,
}

/// Fewer locks than keys: `commit_ts` says whether the transaction was committed (above 0) or rolled back.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CheckSecondaryLocksResponse {
    #[prost(message, optional, tag = "1")]
    pub region_error: Option<RegionError>,
    #[prost(message, optional, tag = "2")]
    pub error: Option<KeyError>,
    #[prost(message, repeated, tag = "3")]
    pub locks: Vec<LockInfo>,
    #[prost(uint64, tag = "4")]
    pub commit_ts: u64,
}

/// Destroys all versions, locks and records of a range in one store, bypassing its regions.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DestroyRangeRequest {
    #[prost(bytes = "vec", tag = "2")]
    pub start_key: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub end_key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DestroyRangeResponse {
    #[prost(message, optional, tag = "1")]
    pub region_error: Option<RegionError>,
    #[prost(string, tag = "2")]
    pub error: String,
}
