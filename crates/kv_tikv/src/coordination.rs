//! Coordination of servers: their records, which are metadata keys, and the lease of this one.
//!
//! The store's clock is the placement driver's: the physical part of a timestamp, which grows
//! monotonically across its leaders. Snapshots and commits have timestamps, too, so that "after the end
//! of the lease" means the same for a transaction and for the servers that wait for that end.

use crate::cluster::Cluster;
use crate::fault::read_error;
use crate::keys::{frame, unframe, unframe_u64};
use crate::meta::{change, delete, entries, put, value_at};
use porpoise_base::cancel::Cancel;
use porpoise_kv::coordination::{Coordination, Lease, ServerRecord};
use porpoise_kv::{Error, Result, SpaceId};
use porpoise_tikv_client::{Call, physical_ms};

impl Coordination for Cluster {
    fn now(&self) -> Result<u64> {
        let call = Call {
            cancel: &Cancel::new(),
            deadline: None,
        };
        let ts = self.client.timestamp(call).map_err(read_error)?;
        Ok(physical_ms(ts))
    }

    fn next_space(&self) -> Result<SpaceId> {
        let client = self.client();
        let keys = vec![self.layout.next_space()];
        self.meta(|| {
            change(&client, keys, |values| {
                let next = value_at(values, 0).map_or(Ok(SpaceId::FIRST_FREE.0), unframe_u64)?;
                Ok((Vec::new(), SpaceId(next)))
            })
        })
    }

    fn records(&self) -> Result<(u64, Vec<ServerRecord>)> {
        let client = self.client();
        let (start, end) = self.layout.servers();
        let (ts, found) = self.meta(|| entries(&client, start, end))?;
        let record = |(key, value): (Vec<u8>, Vec<u8>)| {
            let malformed = || Error::Corrupt("a malformed key in the list of servers".into());
            let server = self.layout.server_of_meta(&key).ok_or_else(malformed)?;
            Ok((server, unframe(&value)?.to_vec()))
        };
        let records = found.into_iter().map(record).collect::<Result<_>>()?;
        Ok((physical_ms(ts), records))
    }

    fn replace_record(
        &self,
        server: u64,
        expected: Option<&[u8]>,
        record: Option<&[u8]>,
    ) -> Result<bool> {
        let client = self.client();
        let key = self.layout.server(server);
        self.meta(|| {
            change(&client, vec![key.clone()], |values| {
                let found = value_at(values, 0).map(unframe).transpose()?;
                if found != expected {
                    return Ok((Vec::new(), false));
                }
                let write = match record {
                    Some(record) => put(key.clone(), frame(record)),
                    None => delete(key.clone()),
                };
                Ok((vec![write], true))
            })
        })
    }

    fn grant_lease(&self, lease: Lease) {
        self.fence.grant(lease);
    }

    fn end_lease(&self, reason: &str) {
        self.fence.end(reason);
    }
}
