//! Guarantee 11: spaces are created and dropped, and ids are not reused.

use super::{Fixture, New, dump};
use crate::{Check, Error, Key, Read, SpaceDurability, SpaceId, SpaceSpec};
use std::collections::BTreeSet;

/// New spaces are listed with the specification that they were created with.
pub fn guarantee_11_new_spaces_are_distinct_listed_and_empty(new: New<'_>) {
    let bed = Fixture::new(new);
    let specs = [
        SpaceSpec {
            group: 7,
            partition: 3,
            durability: SpaceDurability::Server,
            point_lookups: true,
        },
        SpaceSpec::default(),
    ];
    let ids = bed.engine.create_spaces(&specs).unwrap();
    assert_eq!(ids.len(), 2);
    let distinct: BTreeSet<SpaceId> = ids.iter().copied().chain([bed.space]).collect();
    assert_eq!(distinct.len(), 3);
    let listed = bed.engine.spaces().unwrap();
    assert!(listed.iter().all(|(id, _)| *id >= SpaceId::FIRST_FREE));
    for (id, spec) in ids.iter().zip(&specs) {
        assert!(listed.contains(&(*id, spec.clone())), "{id:?}");
        let mut txn = bed.begin();
        assert!(dump(&mut *txn, Read::CURRENT, *id).is_empty());
    }
}

/// Its rows are gone, its use is an error, and its id is not reused.
pub fn guarantee_11_a_dropped_space_is_gone_for_good(new: New<'_>) {
    let bed = Fixture::new(new);
    bed.set("a", "1");
    let mut late = bed.begin();
    late.put(bed.key("b"), b"1", Check::FirstCommitter).unwrap();
    bed.engine.drop_spaces(&[bed.space]).unwrap();
    bed.engine.drop_spaces(&[bed.space]).unwrap();
    let outcome = late.commit();
    assert!(matches!(outcome, Err(Error::NoSuchSpace(_))), "{outcome:?}");
    let mut txn = bed.begin();
    let read = txn.get(Read::SNAPSHOT, &[bed.key("a")], &mut |_, value| {
        assert!(value.is_none());
    });
    assert!(matches!(read, Err(Error::NoSuchSpace(_))), "{read:?}");
    assert!(
        !bed.engine
            .spaces()
            .unwrap()
            .iter()
            .any(|(id, _)| *id == bed.space)
    );
    for _ in 0..3 {
        let again = Fixture::on(bed.engine.clone());
        assert_ne!(again.space, bed.space);
        assert_eq!(again.get("a"), None);
    }
}

/// Spaces below the first free id need not be created.
pub fn guarantee_11_the_catalogs_spaces_always_exist(new: New<'_>) {
    let bed = Fixture::new(new);
    for id in [SpaceId(1), SpaceId(SpaceId::FIRST_FREE.0 - 1)] {
        let key = format!("contract{}", bed.space.0);
        let mut txn = bed.begin();
        txn.put(Key::new(id, key.as_bytes()), b"v", Check::FirstCommitter)
            .unwrap();
        bed.commit(txn);
        let mut txn = bed.begin();
        assert_eq!(
            super::read(&mut *txn, Read::SNAPSHOT, Key::new(id, key.as_bytes())).as_deref(),
            Some("v")
        );
        txn.delete(Key::new(id, key.as_bytes()), Check::FirstCommitter)
            .unwrap();
        bed.commit(txn);
    }
}

/// The same bytes in two spaces are different keys for reads, scans and locks.
pub fn guarantee_11_spaces_do_not_mix(new: New<'_>) {
    let one = Fixture::new(new);
    let two = Fixture::on(one.engine.clone());
    one.set("a", "one");
    two.set("a", "two");
    two.set("b", "two");
    assert_eq!(one.get("a").as_deref(), Some("one"));
    assert_eq!(two.get("a").as_deref(), Some("two"));
    let mut txn = one.begin();
    assert_eq!(dump(&mut *txn, Read::SNAPSHOT, one.space).len(), 1);
    assert!(one.try_lock(&mut *txn, "a", crate::LockMode::Exclusive));
    let mut other = two.begin();
    assert!(two.try_lock(&mut *other, "a", crate::LockMode::Exclusive));
}
