//! Tests of the memory budget.

use super::*;

fn tracker(server: &Arc<MemoryBudget>) -> Arc<MemoryTracker> {
    let connection = Arc::new(ConnectionMemory::new(server.clone()));
    Arc::new(MemoryTracker::new(connection, MemoryClass::Statement))
}

#[test]
fn reservations_grow_in_steps_and_return() {
    let server = Arc::new(MemoryBudget::new(1 << 20));
    let statement = tracker(&server);
    statement.hold(1).unwrap();
    assert_eq!(server.used(), 4096);
    statement.hold(100_000).unwrap();
    assert_eq!(server.used(), 131_072);
    assert_eq!(server.used_by(MemoryClass::Statement), 131_072);
    statement.release(100_001);
    assert_eq!((server.used(), statement.connection().used()), (0, 0));
    assert_eq!(server.peak(), 131_072);
    statement.hold(5000).unwrap();
    drop(statement);
    assert_eq!((server.used(), server.peak()), (0, 131_072));
}

#[test]
fn each_limit_refuses_and_changes_nothing() {
    let server = Arc::new(MemoryBudget::new(1 << 20));
    let statement = tracker(&server);
    statement.hold(10_000).unwrap();
    let refused = statement.hold(1 << 20).unwrap_err();
    assert_eq!(refused.limit, MemoryLimit::Server);
    assert_eq!(refused.allowed, 1 << 20);
    statement.connection().set_limit(200_000);
    let refused = statement.hold(200_000).unwrap_err();
    assert_eq!(refused.limit, MemoryLimit::Connection);
    statement.set_limit(50_000);
    let refused = statement.hold(40_001).unwrap_err();
    assert_eq!(
        (refused.limit, refused.wanted),
        (MemoryLimit::Statement, 50_001)
    );
    assert_eq!((statement.used(), server.used()), (10_000, 12_288));
    for limit in [
        MemoryLimit::Server,
        MemoryLimit::Connection,
        MemoryLimit::Statement,
    ] {
        assert_eq!(server.refusals(limit), 1);
    }
    statement.hold(40_000).unwrap();
}

#[test]
fn small_statements_continue_when_the_budget_is_used_up() {
    let server = Arc::new(MemoryBudget::new(1 << 20));
    let large = tracker(&server);
    large.hold(1 << 20).unwrap();
    let small = tracker(&server);
    small.hold(FLOOR).unwrap();
    assert_eq!(small.hold(1).unwrap_err().limit, MemoryLimit::Server);
    drop(large);
    small.hold(100_000).unwrap();
}

#[test]
fn hold_always_may_exceed_the_limit() {
    let server = Arc::new(MemoryBudget::new(100_000));
    let output = tracker(&server);
    output.hold_always(500_000);
    assert_eq!(server.used(), 524_288);
    assert!(output.hold(100_000).is_err());
    output.resize_always(10);
    assert_eq!(server.used(), 4096);
    output.resize(20_000).unwrap();
    assert!(output.resize(200_000).is_err());
    output.resize(0).unwrap();
    assert_eq!(server.used(), 0);
}

#[test]
fn a_charge_is_returned_with_its_owner() {
    let server = Arc::new(MemoryBudget::new(1 << 20));
    let session = tracker(&server);
    let mut charge = session.charge(3000).unwrap();
    charge.grow(3000).unwrap();
    assert!(charge.grow(2 << 20).is_err());
    assert_eq!((charge.bytes(), session.used()), (6000, 6000));
    drop(charge);
    assert_eq!((session.used(), server.used()), (0, 0));
}

#[test]
fn concurrent_reservations_are_all_released() {
    let server = Arc::new(MemoryBudget::new(1 << 20));
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let server = server.clone();
            scope.spawn(move || {
                for round in 0..2000u64 {
                    let statement = tracker(&server);
                    let bytes = (round * 37 + thread * 911) % 300_000;
                    let _ = statement.hold(bytes);
                    let _ = statement.hold(bytes / 2);
                }
            });
        }
    });
    assert_eq!(server.used(), 0);
    assert_eq!(server.used_by(MemoryClass::Statement), 0);
}
