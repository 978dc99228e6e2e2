//! MariaDB's identifiers: `domain-server-number`, and positions, which have the last one of each domain.

use std::collections::BTreeMap;
use std::fmt;

use super::GtidError;

/// Identifier of a transaction of MariaDB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MariadbGtid {
    /// Domain: transactions of a domain have one order.
    pub domain: u32,
    /// Server that ran the transaction first.
    pub server: u32,
    /// Number, which grows within a domain.
    pub number: u64,
}

impl MariadbGtid {
    /// Reads `domain-server-number`.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse(text: &str) -> Result<MariadbGtid, GtidError> {
        let mut parts = text.trim().split('-');
        let mut next = || parts.next().and_then(|part| part.parse::<u64>().ok());
        let gtid = match (next(), next(), next()) {
            (Some(domain), Some(server), Some(number)) => u32::try_from(domain)
                .ok()
                .zip(u32::try_from(server).ok())
                .map(|(domain, server)| MariadbGtid {
                    domain,
                    server,
                    number,
                }),
            _ => None,
        };
        gtid.filter(|_| parts.next().is_none())
            .ok_or_else(|| GtidError(format!("{text:?} is not a GTID of MariaDB")))
    }
}

impl fmt::Display for MariadbGtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.domain, self.server, self.number)
    }
}

/// Position in the log of a MariaDB source: the last transaction of each domain.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct MariadbPosition {
    domains: BTreeMap<u32, MariadbGtid>,
}

impl MariadbPosition {
    /// Reads identifiers separated by commas.
    ///
    /// # Errors
    /// A part that is not an identifier; a domain twice.
    pub fn parse(text: &str) -> Result<MariadbPosition, GtidError> {
        let mut position = MariadbPosition::default();
        for part in text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let gtid = MariadbGtid::parse(part)?;
            if position.domains.insert(gtid.domain, gtid).is_some() {
                return Err(GtidError(format!("the domain {} twice", gtid.domain)));
            }
        }
        Ok(position)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.domains.is_empty()
    }

    /// Makes a transaction the last one of its domain.
    pub fn advance(&mut self, gtid: MariadbGtid) {
        self.domains.insert(gtid.domain, gtid);
    }

    /// Whether a transaction is at or before the position in its domain.
    #[must_use]
    pub fn contains(&self, gtid: MariadbGtid) -> bool {
        self.domains
            .get(&gtid.domain)
            .is_some_and(|last| gtid.number <= last.number)
    }
}

impl fmt::Display for MariadbPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, gtid) in self.domains.values().enumerate() {
            write!(f, "{}{gtid}", if at > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}
