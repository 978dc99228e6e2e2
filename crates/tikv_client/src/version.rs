//! Check of the stores' versions.
//!
//! A prewrite of a transaction with locks may name keys that it has not locked, on the condition that they have no
//! newer version (`pessimistic_action::CHECK_VERSION`). Stores below [`OLDEST`] read that as "is locked", and refuse the
//! prewrite. So the versions of all stores are checked when the client connects, and that of a store again whenever its
//! address is read: before the first request to it, and after each failure of its connection.
//!
//! A version that cannot be parsed (of a build that is not a release) is accepted.

use crate::error::{Error, Result};
use crate::proto::{Store, store_state};

/// The oldest version that can be used.
const OLDEST: Version = Version([6, 5, 0]);

/// Major and minor number and patch level of a release. A pre-release counts as its release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version([u64; 3]);

impl Version {
    /// The version in a text like `8.5.1`, `v8.5.1` or `9.0.0-beta.1`.
    fn parse(text: &str) -> Option<Version> {
        let text = text.trim();
        let text = text.strip_prefix('v').unwrap_or(text);
        let release = text.split(['-', '+']).next()?;
        let mut numbers = release.split('.').map(|n| n.parse().ok());
        let mut next = || numbers.next().flatten();
        let version = Version([next()?, next()?, next()?]);
        numbers.next().is_none().then_some(version)
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Version([major, minor, patch]) = self;
        write!(f, "{major}.{minor}.{patch}")
    }
}

/// Checks that a store is new enough.
///
/// # Errors
/// [`Error::Refused`] names the store, its version, and the one that is needed.
pub(crate) fn check(store: &Store) -> Result<()> {
    if store.state == store_state::TOMBSTONE || store.is_columnar() {
        return Ok(());
    }
    match Version::parse(&store.version) {
        Some(version) if version < OLDEST => Err(Error::Refused(format!(
            "store {} at {} runs TiKV {}; Porpoise needs TiKV {OLDEST} or later on every store",
            store.id, store.address, store.version
        ))),
        Some(_) => Ok(()),
        None => {
            let (id, version) = (store.id, &store.version);
            tracing::warn!("the version {version:?} of store {id} cannot be read");
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::StoreLabel;

    fn store(version: &str) -> Store {
        Store {
            id: 4,
            address: "tikv4:20160".into(),
            version: version.into(),
            ..Store::default()
        }
    }

    #[test]
    fn releases_are_compared_by_number() {
        for old in ["6.4.9", "v6.1.0", "5.10.10", "6.4.0-alpha"] {
            let refused = check(&store(old)).unwrap_err().to_string();
            let expected = format!(
                "store 4 at tikv4:20160 runs TiKV {old}; Porpoise needs TiKV 6.5.0 or later on every store"
            );
            assert_eq!(refused, expected);
        }
        for new in [
            "6.5.0",
            "v6.5.12",
            "6.10.0",
            "8.5.0",
            "9.0.0-beta.1",
            "10.0.0",
        ] {
            check(&store(new)).unwrap();
        }
    }

    #[test]
    fn a_version_that_cannot_be_read_is_accepted() {
        for odd in ["", "6", "6.1", "nightly", "1.2.3.4", "a.b.c"] {
            assert_eq!(Version::parse(odd), None, "{odd}");
            check(&store(odd)).unwrap();
        }
    }

    #[test]
    fn stores_that_get_no_requests_may_be_of_any_version() {
        let mut removed = store("4.0.0");
        removed.state = store_state::TOMBSTONE;
        check(&removed).unwrap();
        let mut columnar = store("4.0.0");
        columnar.labels.push(StoreLabel {
            key: "engine".into(),
            value: "tiflash".into(),
        });
        check(&columnar).unwrap();
    }
}
