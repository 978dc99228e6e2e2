//! The stream that carries requests to a store and their responses (`tikvpb.BatchCommands`).

use super::kv::{
    BatchGetRequest, BatchGetResponse, BatchRollbackRequest, CheckSecondaryLocksRequest,
    CheckSecondaryLocksResponse, CheckTxnStatusRequest, CheckTxnStatusResponse, CommitRequest,
    GetRequest, GetResponse, PessimisticLockRequest, PessimisticLockResponse,
    PessimisticRollbackRequest, PessimisticRollbackResponse, PlainResponse, PrewriteRequest,
    PrewriteResponse, ResolveLockRequest, ScanLockRequest, ScanLockResponse, ScanRequest,
    ScanResponse, TxnHeartBeatRequest,
};

/// A request of the stream.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Command {
    #[prost(message, tag = "1")]
    Get(GetRequest),
    #[prost(message, tag = "2")]
    Scan(ScanRequest),
    #[prost(message, tag = "3")]
    Prewrite(PrewriteRequest),
    #[prost(message, tag = "4")]
    Commit(CommitRequest),
    #[prost(message, tag = "7")]
    BatchGet(BatchGetRequest),
    #[prost(message, tag = "8")]
    BatchRollback(BatchRollbackRequest),
    #[prost(message, tag = "9")]
    ScanLock(ScanLockRequest),
    #[prost(message, tag = "10")]
    ResolveLock(ResolveLockRequest),
    #[prost(message, tag = "23")]
    PessimisticLock(PessimisticLockRequest),
    #[prost(message, tag = "24")]
    PessimisticRollback(PessimisticRollbackRequest),
    #[prost(message, tag = "25")]
    CheckTxnStatus(CheckTxnStatusRequest),
    #[prost(message, tag = "26")]
    TxnHeartBeat(TxnHeartBeatRequest),
    #[prost(message, tag = "33")]
    CheckSecondaryLocks(CheckSecondaryLocksRequest),
}

/// A response of the stream.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Reply {
    #[prost(message, tag = "1")]
    Get(GetResponse),
    #[prost(message, tag = "2")]
    Scan(ScanResponse),
    #[prost(message, tag = "3")]
    Prewrite(PrewriteResponse),
    #[prost(message, tag = "4")]
    Commit(PlainResponse),
    #[prost(message, tag = "7")]
    BatchGet(BatchGetResponse),
    #[prost(message, tag = "8")]
    BatchRollback(PlainResponse),
    #[prost(message, tag = "9")]
    ScanLock(ScanLockResponse),
    #[prost(message, tag = "10")]
    ResolveLock(PlainResponse),
    #[prost(message, tag = "23")]
    PessimisticLock(PessimisticLockResponse),
    #[prost(message, tag = "24")]
    PessimisticRollback(PessimisticRollbackResponse),
    #[prost(message, tag = "25")]
    CheckTxnStatus(CheckTxnStatusResponse),
    #[prost(message, tag = "26")]
    TxnHeartBeat(PlainResponse),
    #[prost(message, tag = "33")]
    CheckSecondaryLocks(CheckSecondaryLocksResponse),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct BatchRequest {
    #[prost(
        oneof = "Command",
        tags = "1, 2, 3, 4, 7, 8, 9, 10, 23, 24, 25, 26, 33"
    )]
    pub command: Option<Command>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct BatchResponse {
    #[prost(oneof = "Reply", tags = "1, 2, 3, 4, 7, 8, 9, 10, 23, 24, 25, 26, 33")]
    pub reply: Option<Reply>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct BatchCommandsRequest {
    #[prost(message, repeated, tag = "1")]
    pub requests: Vec<BatchRequest>,
    #[prost(uint64, repeated, tag = "2")]
    pub request_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct BatchCommandsResponse {
    #[prost(message, repeated, tag = "1")]
    pub responses: Vec<BatchResponse>,
    #[prost(uint64, repeated, tag = "2")]
    pub request_ids: Vec<u64>,
}
