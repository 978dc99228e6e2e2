//! Guarantee 11: spaces are created and dropped, and ids are not reused.

use super::{EngineFactory, Fixture, dump};
use crate::{Check, Error, Key, Read, SpaceDurability, SpaceId, SpaceSpec};
use std::collections::BTreeSet;

/// New spaces are listed with the specification that they were created with.
pub fn guarantee_11_new_spaces_are_distinct_listed_and_empty(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    let specs = [
        SpaceSpec {
            group: 7,
            partition: 3,
            durability: SpaceDurability::Server,
            point_lookups: true,
        },
        SpaceSpec::default(),
    ];
    let ids = fixture.engine.create_spaces(&specs).unwrap();
    assert_eq!(ids.len(), 2);
    let distinct: BTreeSet<SpaceId> = ids.iter().copied().chain([fixture.space]).collect();
    assert_eq!(distinct.len(), 3);
    let listed = fixture.engine.spaces().unwrap();
    assert!(listed.iter().all(|(id, _)| *id >= SpaceId::FIRST_FREE));
    for (id, spec) in ids.iter().zip(&specs) {
        assert!(listed.contains(&(*id, spec.clone())), "{id:?}");
        let mut txn = fixture.begin();
        assert!(dump(&mut *txn, Read::CURRENT, *id).is_empty());
    }
}

/// Its rows are gone, its use is an error, and its id is not reused.
pub fn guarantee_11_a_dropped_space_is_gone_for_good(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    fixture.set("a", "1");
    let mut late = fixture.begin();
    late.put(fixture.key("b"), b"1", Check::FirstCommitter)
        .unwrap();
    fixture.engine.drop_spaces(&[fixture.space]).unwrap();
    fixture.engine.drop_spaces(&[fixture.space]).unwrap();
    let outcome = late.commit();
    assert!(matches!(outcome, Err(Error::NoSuchSpace(_))), "{outcome:?}");
    let mut txn = fixture.begin();
    let read = txn.get(Read::SNAPSHOT, &[fixture.key("a")], &mut |_, value| {
        assert!(value.is_none());
    });
    assert!(matches!(read, Err(Error::NoSuchSpace(_))), "{read:?}");
    assert!(
        !fixture
            .engine
            .spaces()
            .unwrap()
            .iter()
            .any(|(id, _)| *id == fixture.space)
    );
    for _ in 0..3 {
        let again = Fixture::on(fixture.engine.clone());
        assert_ne!(again.space, fixture.space);
        assert_eq!(again.get("a"), None);
    }
}

/// Spaces below the first free id need not be created.
pub fn guarantee_11_the_catalogs_spaces_always_exist(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    for id in [SpaceId(1), SpaceId(SpaceId::FIRST_FREE.0 - 1)] {
        let key = format!("contract{}", fixture.space.0);
        let mut txn = fixture.begin();
        txn.put(Key::new(id, key.as_bytes()), b"v", Check::FirstCommitter)
            .unwrap();
        fixture.commit(txn);
        let mut txn = fixture.begin();
        assert_eq!(
            super::read(&mut *txn, Read::SNAPSHOT, Key::new(id, key.as_bytes())).as_deref(),
            Some("v")
        );
        txn.delete(Key::new(id, key.as_bytes()), Check::FirstCommitter)
            .unwrap();
        fixture.commit(txn);
    }
}

/// The same bytes in two spaces are different keys for reads, scans and locks.
pub fn guarantee_11_spaces_do_not_mix(new: EngineFactory<'_>) {
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
