//! Requests to the placement driver (package `pdpb`).

use super::common::{MetaRegion, Peer, Store};

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RequestHeader {
    #[prost(uint64, tag = "1")]
    pub cluster_id: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PdError {
    #[prost(int32, tag = "1")]
    pub kind: i32,
    #[prost(string, tag = "2")]
    pub message: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ResponseHeader {
    #[prost(uint64, tag = "1")]
    pub cluster_id: u64,
    #[prost(message, optional, tag = "2")]
    pub error: Option<PdError>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct GetMembersRequest {
    #[prost(message, optional, tag = "1")]
    pub header: Option<RequestHeader>,
}

/// A placement driver.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Member {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(uint64, tag = "2")]
    pub member_id: u64,
    #[prost(string, repeated, tag = "4")]
    pub client_urls: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct GetMembersResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    pub members: Vec<Member>,
    #[prost(message, optional, tag = "3")]
    pub leader: Option<Member>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TsoRequest {
    #[prost(message, optional, tag = "1")]
    pub header: Option<RequestHeader>,
    #[prost(uint32, tag = "2")]
    pub count: u32,
    #[prost(string, tag = "3")]
    pub dc_location: String,
}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct Timestamp {
    #[prost(int64, tag = "1")]
    pub physical: i64,
    #[prost(int64, tag = "2")]
    pub logical: i64,
    #[prost(uint32, tag = "3")]
    pub suffix_bits: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TsoResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(uint32, tag = "2")]
    pub count: u32,
    /// The last of the `count` timestamps.
    #[prost(message, optional, tag = "3")]
    pub timestamp: Option<Timestamp>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct GetRegionRequest {
    #[prost(message, optional, tag = "1")]
    pub header: Option<RequestHeader>,
    #[prost(bytes = "vec", tag = "2")]
    pub region_key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct GetRegionResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(message, optional, tag = "2")]
    pub region: Option<MetaRegion>,
    #[prost(message, optional, tag = "3")]
    pub leader: Option<Peer>,
}

/// The stores of the cluster.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct GetAllStoresRequest {
    #[prost(message, optional, tag = "1")]
    pub header: Option<RequestHeader>,
    #[prost(bool, tag = "2")]
    pub exclude_tombstone_stores: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct GetAllStoresResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    pub stores: Vec<Store>,
}

/// Request for the safe point of garbage collection.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct GetSafePointRequest {
    #[prost(message, optional, tag = "1")]
    pub header: Option<RequestHeader>,
}

/// Response with a safe point, also to [`MoveSafePointRequest`]: the one in force.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SafePointResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(uint64, tag = "2")]
    pub safe_point: u64,
}

/// Moves the safe point; a lower one than that in force has no effect.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct MoveSafePointRequest {
    #[prost(message, optional, tag = "1")]
    pub header: Option<RequestHeader>,
    #[prost(uint64, tag = "2")]
    pub safe_point: u64,
}

/// Registers the timestamp that a service needs, for a number of seconds; 0 or less ends the registration.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ServiceSafePointRequest {
    #[prost(message, optional, tag = "1")]
    pub header: Option<RequestHeader>,
    #[prost(bytes = "vec", tag = "2")]
    pub service_id: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub ttl: i64,
    #[prost(uint64, tag = "4")]
    pub safe_point: u64,
}

/// The least timestamp that any service needs.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ServiceSafePointResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(uint64, tag = "4")]
    pub min_safe_point: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct GetStoreRequest {
    #[prost(message, optional, tag = "1")]
    pub header: Option<RequestHeader>,
    #[prost(uint64, tag = "2")]
    pub store_id: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct GetStoreResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(message, optional, tag = "2")]
    pub store: Option<Store>,
}
