//! Exhaustive test of the lock: all orders in which three transactions can use it.
//!
//! A step is one action under the record's latch: a request (which joins the queue when blocked,
//! and then sleeps or spins), noticing a grant, claiming after a call, giving up, becoming the
//! victim of a deadlock, a release. A schedule is a list of choices. Each is replayed on a fresh
//! lock, and the next one differs in the last place that still has another choice (stateless model
//! checking). After every step the cell satisfies its invariants, and no transaction sleeps without
//! a blocker; in the end the lock is free.

use super::*;
use LockMode::{Exclusive, KeyShare, Share, Update};

const MODES: [LockMode; 4] = [KeyShare, Share, Update, Exclusive];

/// A transaction, with the modes that it requests one after the other.
struct Agent {
    txn: TxnId,
    wants: Vec<LockMode>,
    waits: Option<Arc<Waiter>>,
    /// Whether it sleeps when it waits.
    sleeps: bool,
    /// Whether it may become a victim.
    may_be_victim: bool,
    done: bool,
}

impl Agent {
    fn new(txn: TxnId, wants: &[LockMode]) -> Agent {
        Agent {
            txn,
            wants: wants.iter().rev().copied().collect(),
            waits: None,
            sleeps: txn.is_multiple_of(2),
            may_be_victim: false,
            done: false,
        }
    }

    fn is_notified(&self) -> bool {
        let notified = |w: &Arc<Waiter>| w.is_granted() || w.is_called();
        self.waits.as_ref().is_some_and(notified)
    }

    fn is_granted(&self) -> bool {
        self.waits.as_ref().is_some_and(|w| w.is_granted())
    }

    fn is_victim(&self) -> bool {
        self.waits.as_ref().is_some_and(|w| w.is_victim())
    }

    /// Number of actions that are possible now.
    fn choices(&self) -> usize {
        match (&self.waits, self.done) {
            (_, true) => 0,
            // A victim can only give up.
            (Some(_), _) if self.is_victim() => 1,
            // It can give up, even after a signal; continue after a signal; become a victim.
            (Some(_), _) => 1 + usize::from(self.is_notified()) + usize::from(self.may_be_victim),
            (None, _) => 1,
        }
    }

    fn act(&mut self, choice: usize, cell: &mut LockCell) {
        let notified = self.is_notified();
        match self.waits.take() {
            Some(waiter) if choice == 2 || (choice == 1 && !notified) => {
                let chosen = cell.choose_victim(&waiter);
                assert_eq!(chosen, !waiter.is_granted(), "granted or chosen, not both");
                assert!(
                    !chosen || !cell.claim(&waiter),
                    "a victim is granted nothing"
                );
                self.waits = Some(waiter);
                self.may_be_victim = false;
            }
            Some(waiter) if choice == 1 => {
                let called = waiter.is_called();
                if called && !cell.claim(&waiter) {
                    waiter.set_asleep();
                    self.waits = Some(waiter);
                }
            }
            Some(waiter) => {
                let left = cell.leave_queue(&waiter);
                assert_eq!(left, !waiter.is_granted(), "granted or left, not both");
                self.end(cell);
            }
            None => match self.wants.pop() {
                None => self.end(cell),
                Some(mode) => match cell.request(self.txn, mode) {
                    Request::Granted(_) => assert!(cell.held_mode(self.txn).is_some()),
                    Request::Blocked => {
                        let waiter = cell.enqueue(self.txn, mode);
                        if self.sleeps {
                            waiter.set_asleep();
                        }
                        self.waits = Some(waiter);
                    }
                },
            },
        }
    }

    fn end(&mut self, cell: &mut LockCell) {
        cell.release(self.txn);
        self.done = true;
    }
}

/// Checks that each sleeping waiter has a blocker, and that grants match the requests.
fn in_order(cell: &LockCell, agents: &[Agent]) {
    cell.check().unwrap();
    let mut blockers = Vec::new();
    for agent in agents.iter().filter(|a| a.waits.is_some()) {
        blockers.clear();
        cell.blockers(agent.txn, &mut blockers);
        let waits = !agent.is_notified() && !agent.is_victim();
        assert!(!waits || !blockers.is_empty(), "{}", agent.txn);
        assert!(!agent.is_granted() || blockers.is_empty(), "{}", agent.txn);
    }
}

/// Runs one schedule, and records the number of choices at each step.
fn replay(schedule: &mut Vec<(usize, usize)>, scripts: &[Vec<LockMode>], victims: bool) {
    let mut cell = LockCell::default();
    let mut agents: Vec<Agent> = (1..)
        .zip(scripts)
        .map(|(txn, wants)| Agent {
            may_be_victim: victims,
            ..Agent::new(txn, wants)
        })
        .collect();
    for step in 0.. {
        let all: usize = agents.iter().map(Agent::choices).sum();
        if all == 0 {
            break;
        }
        if step == schedule.len() {
            schedule.push((0, all));
        }
        let (mut choice, expected) = schedule[step];
        assert_eq!(expected, all, "a schedule leads to the same state");
        for agent in &mut agents {
            let here = agent.choices();
            if choice < here {
                agent.act(choice, &mut cell);
                break;
            }
            choice -= here;
        }
        in_order(&cell, &agents);
    }
    assert!(cell.is_free(), "{scripts:?} by {schedule:?}");
}

/// Runs all schedules of these scripts, with or without victims. Returns their number.
fn explore(scripts: &[Vec<LockMode>], victims: bool) -> usize {
    let mut schedule: Vec<(usize, usize)> = Vec::new();
    for count in 1.. {
        replay(&mut schedule, scripts, victims);
        while let Some((choice, all)) = schedule.pop() {
            if choice + 1 < all {
                schedule.push((choice + 1, all));
                break;
            }
        }
        if schedule.is_empty() {
            return count;
        }
    }
    0
}

#[test]
fn every_order_of_three_transactions_ends_with_a_free_lock() {
    let mut schedules = 0;
    for one in MODES {
        for two in MODES {
            for three in MODES {
                schedules += explore(&[vec![one], vec![two], vec![three]], false);
            }
        }
    }
    assert!(schedules > 10_000, "{schedules}");
}

#[test]
fn every_order_of_upgrades_ends_with_a_free_lock() {
    for first in MODES {
        for second in MODES {
            for other in MODES {
                explore(&[vec![first, second], vec![other, Exclusive]], false);
                explore(
                    &[vec![first, second], vec![KeyShare, other], vec![Update]],
                    false,
                );
            }
        }
    }
}

#[test]
fn every_order_with_victims_ends_with_a_free_lock() {
    for one in MODES {
        for two in MODES {
            explore(&[vec![one], vec![two], vec![Exclusive]], true);
            explore(&[vec![KeyShare, one], vec![two, Exclusive]], true);
        }
    }
}
