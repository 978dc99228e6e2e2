//! Evaluation of expiry ([`crate::ttl`]) for rows of a database.

use crate::db::Db;
use crate::row::RowRef;
use crate::ttl::{ExpiryRule, ExpiryTime, ExpiryZone, TtlCounters};
use porpoise_types::TimeZone;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl ExpiryRule {
    /// Whether a row has expired.
    #[inline]
    pub fn is_expired(&self, row: &RowRef<'_>, now: &ExpiryTime) -> bool {
        self.lifetime.is_over(row.get(self.column), self.kind, now)
    }
}

impl Db {
    /// Counters of expired rows.
    pub fn ttl_counters(&self) -> &TtlCounters {
        &self.ttl_counters
    }

    /// Sets the time zone in which DATETIME and DATE columns of TTL are compared.
    pub fn set_expiry_zone(&self, zone: TimeZone) {
        self.expiry_zone.0.store(Arc::new(zone));
    }

    /// The time zone in which DATETIME and DATE columns of TTL are compared.
    pub fn expiry_zone(&self) -> &ExpiryZone {
        &self.expiry_zone
    }

    /// The present time, at which expiry is evaluated.
    pub fn expiry_time(&self) -> ExpiryTime {
        self.expiry_zone.at(self.clock().unix_micros())
    }

    /// Whether rows of some table expire.
    #[inline]
    pub fn has_ttl(&self) -> bool {
        self.has_ttl.load(Ordering::Relaxed)
    }
}
