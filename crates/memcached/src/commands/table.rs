//! The table of commands that change one item.
//!
//! One entry gives for a variant of [`Change`]: the column of the policy that selects table or
//! cache, the privileges needed on the container's table, the functions that execute it on rows and
//! in the memory cache, its result for a key that no row can have, and its counter. The macro
//! generates an exhaustive `match` from each of these, so a variant without an entry does not
//! compile and there are no indirect calls.
//!
//! | command | SQL counterpart | privileges |
//! |---|---|---|
//! | set, ms | INSERT ... ON DUPLICATE KEY UPDATE | INSERT, UPDATE |
//! | add | INSERT | INSERT |
//! | replace, cas, touch | UPDATE ... WHERE key | SELECT, UPDATE |
//! | append, prepend, incr, decr, ma | UPDATE ... SET c = c + n WHERE key | SELECT, UPDATE |
//! | the same, creating a missing item | and INSERT | SELECT, UPDATE, INSERT |
//! | delete, md | DELETE ... WHERE key | SELECT, DELETE |
//! | md that keeps the item (I, x) | UPDATE ... WHERE key | SELECT, UPDATE |

use super::cache_commands::{self, CachedItem};
use super::{CommandOutcome, count_delete, store, touch};
use crate::cache::CacheAction;
use crate::context::requirement::Requirement;
use crate::context::{Failure, Place};
use crate::counters::{self, Counter};
use crate::mapping::Operation;
use porpoise_access::Privileges;
use porpoise_rows::Txn;
use porpoise_wire::memcached::command::{
    Change, Count, Delete, Mode, Outcome, Status, Store, Touch,
};

macro_rules! commands {
    ($($variant:ident($command:ident) {
        operation: $operation:ident,
        privileges: $privileges:expr,
        rows: $rows:path,
        cache: $cache:path,
        impossible_key: $impossible:expr,
        counter: $counter:path,
    })*) => {
        impl Requirement {
            /// Returns the requirement of a command that changes one item.
            #[allow(unused_variables, reason = "not every entry looks at its command")]
            pub(crate) fn of(change: &Change<'_>) -> Requirement {
                let (operation, privileges) = match change {
                    $(Change::$variant($command) => (Operation::$operation, $privileges),)*
                };
                Requirement { operation, privileges }
            }
        }

        /// Executes a command inside a transaction.
        pub(crate) fn run(
            txn: &mut Txn,
            place: &mut Place<'_>,
            change: &Change<'_>,
        ) -> Result<CommandOutcome, Failure> {
            match change {
                $(Change::$variant(command) => $rows(txn, place, command),)*
            }
        }

        /// Executes a command on an item of the memory cache.
        pub(super) fn run_cached(
            item: &mut CachedItem<'_>,
            change: &Change<'_>,
        ) -> (Outcome, CacheAction) {
            match change {
                $(Change::$variant(command) => $cache(item, command),)*
            }
        }

        /// Returns the result of a command for a key that no row can have; `None` if the key is
        /// refused because the command would have to insert its row.
        #[allow(unused_variables, reason = "not every entry looks at its command")]
        pub(super) fn impossible_key(change: &Change<'_>) -> Option<Status> {
            match change {
                $(Change::$variant($command) => $impossible,)*
            }
        }

        /// Returns the counter of a command with this result, besides the counter of all stores.
        fn counter(change: &Change<'_>, status: Status) -> Option<Counter> {
            match change {
                $(Change::$variant(command) => $counter(command, status),)*
            }
        }
    };
}

commands! {
    Store(store) {
        operation: Set,
        privileges: store_privileges(store),
        rows: store::run,
        cache: cache_commands::store,
        impossible_key: match store.mode {
            Mode::Add => None,
            _ if store.compare.is_some() => Some(Status::NotFound),
            Mode::Set => None,
            _ => Some(Status::NotStored),
        },
        counter: cas_counter,
    }
    Count(count) {
        operation: Set,
        privileges: CHANGE.with(insert_if(count.seed.is_some())),
        rows: count_delete::run_count,
        cache: cache_commands::count,
        impossible_key: count.seed.is_none().then_some(Status::NotFound),
        counter: count_counter,
    }
    Delete(delete) {
        operation: Delete,
        privileges: if delete.invalidate || delete.empty {
            CHANGE
        } else {
            Privileges::SELECT.with(Privileges::DELETE)
        },
        rows: count_delete::run_delete,
        cache: cache_commands::delete,
        impossible_key: Some(Status::NotFound),
        counter: delete_counter,
    }
    Touch(touch) {
        operation: Set,
        privileges: CHANGE,
        rows: touch::run_touch,
        cache: cache_commands::touch_item,
        impossible_key: Some(Status::NotFound),
        counter: touch_counter,
    }
}

/// Privileges of a command that changes an existing item.
const CHANGE: Privileges = Privileges::SELECT.with(Privileges::UPDATE);

fn store_privileges(store: &Store<'_>) -> Privileges {
    match store.mode {
        Mode::Set if store.compare.is_some() => CHANGE,
        Mode::Set => Privileges::INSERT.with(Privileges::UPDATE),
        Mode::Add => Privileges::INSERT,
        Mode::Replace => CHANGE,
        Mode::Append | Mode::Prepend => CHANGE.with(insert_if(store.create.is_some())),
    }
}

/// INSERT, if the command creates a missing item.
fn insert_if(creates: bool) -> Privileges {
    if creates {
        Privileges::INSERT
    } else {
        Privileges::NONE
    }
}

/// Counts a command when its outcome is final.
#[inline]
pub(crate) fn count(change: &Change<'_>, status: Status) {
    if let Change::Store(_) = change {
        counters::add(Counter::Set, 1);
        if status == Status::Stored {
            counters::add(Counter::Stored, 1);
        }
    }
    if let Some(counter) = counter(change, status) {
        counters::add(counter, 1);
    }
}

fn cas_counter(store: &Store<'_>, status: Status) -> Option<Counter> {
    store.compare?;
    Some(match status {
        Status::Stored => Counter::CasHit,
        Status::Exists => Counter::CasBadval,
        _ => Counter::CasMiss,
    })
}

fn count_counter(count: &Count<'_>, status: Status) -> Option<Counter> {
    Some(match (count.decrement, status) {
        (true, Status::NotFound) => Counter::DecrMiss,
        (false, Status::NotFound) => Counter::IncrMiss,
        (true, _) => Counter::DecrHit,
        (false, _) => Counter::IncrHit,
    })
}

fn delete_counter(_: &Delete<'_>, status: Status) -> Option<Counter> {
    Some(if status == Status::Deleted {
        Counter::DeleteHit
    } else {
        Counter::DeleteMiss
    })
}

fn touch_counter(_: &Touch<'_>, status: Status) -> Option<Counter> {
    Some(if status == Status::Touched {
        Counter::TouchHit
    } else {
        Counter::TouchMiss
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use porpoise_wire::memcached::commands::Command;
    use porpoise_wire::memcached::meta::Meta;
    use porpoise_wire::memcached::{Limits, Parsed, Parser, Request};
    use std::collections::BTreeSet;

    /// Requests of each command that changes one item, as a client sends them, and the line of
    /// the guide's table of privileges that they fall under.
    fn examples(command: Command) -> &'static [(&'static str, &'static str)] {
        match command {
            Command::Set => &[("set k 0 0 1\r\nv\r\n", "set")],
            Command::Add => &[("add k 0 0 1\r\nv\r\n", "add")],
            Command::Replace => &[("replace k 0 0 1\r\nv\r\n", "replace")],
            Command::Append => &[("append k 0 0 1\r\nv\r\n", "append")],
            Command::Prepend => &[("prepend k 0 0 1\r\nv\r\n", "prepend")],
            Command::Cas => &[("cas k 0 0 1 7\r\nv\r\n", "cas")],
            Command::Increment => &[("incr k 1\r\n", "incr")],
            Command::Decrement => &[("decr k 1\r\n", "decr")],
            Command::Delete => &[("delete k\r\n", "delete")],
            Command::Touch => &[("touch k 0\r\n", "touch")],
            Command::MetaSet => &[
                ("ms k 1\r\nv\r\n", "ms"),
                ("ms k 1 T0 F5 E9\r\nv\r\n", "ms"),
                ("ms k 1 ME\r\nv\r\n", "add"),
                ("ms k 1 MR\r\nv\r\n", "replace"),
                ("ms k 1 MA\r\nv\r\n", "append"),
                ("ms k 1 MP\r\nv\r\n", "prepend"),
                (
                    "ms k 1 MA N0\r\nv\r\n",
                    "append that creates a missing item",
                ),
                (
                    "ms k 1 MP N0\r\nv\r\n",
                    "prepend that creates a missing item",
                ),
                ("ms k 1 C7\r\nv\r\n", "cas"),
                ("ms k 1 C7 I\r\nv\r\n", "cas"),
            ],
            Command::MetaDelete => &[
                ("md k\r\n", "md"),
                ("md k C7\r\n", "md"),
                ("md k I\r\n", "md with I or x"),
                ("md k x T30\r\n", "md with I or x"),
            ],
            Command::MetaArithmetic => &[
                ("ma k\r\n", "ma"),
                ("ma k MD D5 T30\r\n", "ma"),
                ("ma k N0 J5\r\n", "ma that creates a missing item"),
            ],
            // These are not executed as a `Change`.
            Command::Get | Command::Gets | Command::Gat | Command::Gats => &[],
            Command::MetaGet | Command::MetaDebug | Command::Noop | Command::Flush => &[],
            Command::Stats | Command::Version | Command::Verbosity | Command::CacheLimit => &[],
            Command::Shutdown | Command::Quit => &[],
            Command::SaslMechanisms | Command::SaslAuth => &[],
        }
    }

    /// The privileges in the guide's table for the command `label`.
    fn documented(label: &str) -> BTreeSet<&'static str> {
        let guide = include_str!("../../../../docs/guide/memcached-accounts.md");
        let lines = guide.lines().filter_map(|line| {
            let mut cells = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ");
            Some((cells.next()?, cells.next()?))
        });
        let mut found = lines.filter(|(commands, _)| commands.split(", ").any(|c| c == label));
        let (_, privileges) = found.next().expect(label);
        assert!(found.next().is_none(), "{label}");
        privileges.split(", ").collect()
    }

    #[test]
    fn reads_need_the_privileges_in_the_guide() {
        for (label, requirement) in [
            ("get", Requirement::GET),
            ("gets", Requirement::GET),
            ("mg", Requirement::GET),
            ("me", Requirement::GET),
            ("gat", Requirement::TOUCH),
            ("gats", Requirement::TOUCH),
            ("mg with T", Requirement::TOUCH),
        ] {
            let needed: BTreeSet<&str> = requirement.privileges.names().collect();
            assert_eq!(needed, documented(label), "{label}");
        }
    }

    #[test]
    fn changes_need_the_privileges_in_the_guide() {
        let limits = Limits::default();
        let mut count = 0;
        for command in Command::ALL {
            for (request, label) in examples(*command) {
                let parsed = Parser::new(limits).parse(request.as_bytes());
                let change = match parsed {
                    Parsed::Request {
                        request:
                            Request::Change { change, .. } | Request::Meta(Meta::Change(change, _)),
                        consumed,
                    } if consumed == request.len() => change,
                    other => panic!("{request:?}: {other:?}"),
                };
                let word = command.word().unwrap_or_default();
                assert!(request.as_bytes().starts_with(word), "{request:?}");
                let needed = Requirement::of(&change).privileges;
                let needed: BTreeSet<&str> = needed.names().collect();
                assert_eq!(needed, documented(label), "{request:?}");
                count += 1;
            }
        }
        assert!(count > 20, "{count}");
    }
}
