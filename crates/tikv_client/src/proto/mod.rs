//! The messages of TiKV's and the placement driver's gRPC interfaces that this client uses.
//!
//! Written by hand as `prost` structs: numbers and types are those of the public protocol (packages
//! `kvrpcpb`, `errorpb`, `metapb`, `pdpb` and `tikvpb` of pingcap/kvproto). Fields that the client neither sets nor reads
//! are left out; a decoder skips them. So the build needs neither `protoc` nor a generator.
//!
//! * `common`: regions, peers, stores, and the errors of regions and keys.
//! * `pd`: the placement driver.
//! * `kv`: requests to a store.
//! * `batch`: the stream that carries requests to a store.
//!
//! Rejected: generated code (about 20,000 lines for the whole protocol, of which this is 3 %), a generator at build
//! time (a dependency for messages that change once a year).

mod batch;
mod common;
mod kv;
mod pd;

pub(crate) use batch::{BatchCommandsRequest, BatchCommandsResponse, BatchRequest, Command, Reply};
#[cfg(test)]
pub(crate) use common::StoreLabel;
pub(crate) use common::{
    KeyError, LockInfo, MetaRegion, Peer, RegionEpoch, RegionError, Store, op, store_state,
};
pub(crate) use kv::*;
pub(crate) use pd::*;
