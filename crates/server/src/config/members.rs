//! The members of a group: the value of `--failover-members`.

use aws_lc_rs::digest;
use porpoise_replication::election::MemberId;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

/// Minimum of `--failover-timeout`.
pub const MIN_FAILOVER_TIMEOUT: Duration = Duration::from_millis(200);

/// Most members of a group.
const MAX_MEMBERS: usize = 9;

/// Addresses of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberAddress {
    /// Its host.
    pub host: String,
    /// Port for messages between members.
    pub port: u16,
    /// Port of its MySQL listener; `None`: a witness, which has no data.
    pub mysql_port: Option<u16>,
}

/// The members, the same list on all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members {
    all: BTreeMap<MemberId, MemberAddress>,
    first: MemberId,
}

impl Members {
    /// Reads `ID=HOST:PORT/MYSQL_PORT,...`, of a witness `ID=HOST:PORT`.
    ///
    /// # Errors
    /// A description of valid lists.
    pub fn parse(text: &str) -> Result<Members, String> {
        let expected = || {
            format!(
                "a list of at most {MAX_MEMBERS} members like 1=db1:3310/3306,2=db2:3310/3306,3=witness:3310: \
                 SERVER_ID=HOST:PORT/MYSQL_PORT, of a witness without MYSQL_PORT"
            )
        };
        let (mut all, mut first) = (BTreeMap::new(), None);
        for part in text.split(',').map(str::trim) {
            let (id, member) = member(part).ok_or_else(expected)?;
            if first.is_none() && member.mysql_port.is_some() {
                first = Some(id);
            }
            if all.insert(id, member).is_some() {
                return Err(expected());
            }
        }
        let first = first.filter(|_| all.len() <= MAX_MEMBERS);
        Ok(Members {
            first: first.ok_or_else(expected)?,
            all,
        })
    }

    /// Addresses of a member.
    #[must_use]
    pub fn get(&self, id: MemberId) -> Option<&MemberAddress> {
        self.all.get(&id)
    }

    /// Numbers and addresses.
    pub fn iter(&self) -> impl Iterator<Item = (MemberId, &MemberAddress)> {
        self.all.iter().map(|(id, member)| (*id, member))
    }

    /// Numbers of all members.
    #[must_use]
    pub fn ids(&self) -> BTreeSet<MemberId> {
        self.all.keys().copied().collect()
    }

    /// Numbers of the members that have data.
    #[must_use]
    pub fn servers(&self) -> BTreeSet<MemberId> {
        let servers = self
            .iter()
            .filter(|(_, member)| member.mysql_port.is_some());
        servers.map(|(id, _)| id).collect()
    }

    /// The first server of the list: a new group begins with its data.
    #[must_use]
    pub fn first(&self) -> MemberId {
        self.first
    }

    /// Digest of the list, by which members detect that their lists differ.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        let mut text = format!("{};", self.first);
        for (id, member) in &self.all {
            let MemberAddress { host, port, .. } = member;
            let _ = write!(text, "{id}={host}:{port}/{:?},", member.mysql_port);
        }
        let digest = digest::digest(&digest::SHA256, text.as_bytes());
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest.as_ref());
        bytes
    }
}

fn member(text: &str) -> Option<(MemberId, MemberAddress)> {
    let (id, address) = text.split_once('=')?;
    let id: MemberId = id.parse().ok().filter(|id| *id > 0)?;
    let (address, mysql_port) = match address.split_once('/') {
        Some((address, port)) => (address, Some(port.parse().ok()?)),
        None => (address, None),
    };
    let (host, port) = address.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let member = MemberAddress {
        host: host.to_owned(),
        port: port.parse().ok()?,
        mysql_port,
    };
    (!host.is_empty()).then_some((id, member))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_others_refused() {
        let text = "7=db1:3310/3306, 2=[::1]:3310/3307,9=w:3310";
        let members = Members::parse(text).unwrap();
        assert_eq!(members.first(), 7);
        assert_eq!(members.ids(), [2, 7, 9].into());
        assert_eq!(members.servers(), [2, 7].into());
        assert_eq!(members.get(2).unwrap().host, "::1");
        assert_eq!(members.get(9).unwrap().mysql_port, None);
        let other = Members::parse("2=[::1]:3310/3307,7=db1:3310/3306,9=w:3310").unwrap();
        assert_ne!(members.digest(), other.digest(), "another member begins");
        for bad in [
            "",
            "1",
            "1=db1",
            "1=db1:x/1",
            "0=db1:1/1",
            "1=:1/1",
            "3=w:1",
            "1=a:1/2,1=b:1/2",
        ] {
            assert!(Members::parse(bad).is_err(), "{bad}");
        }
        let many: Vec<String> = (1..=10).map(|n| format!("{n}=h:{n}/1")).collect();
        assert!(Members::parse(&many.join(",")).is_err());
    }
}
