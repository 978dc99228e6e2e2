//! `bench kv`, `bench connections`: operations by primary key over numbers of
//! clients, and over numbers of connections with both kinds of client.

use super::kv::{KvWorkload, Operation};
use super::store::{Layout, Store, check_reachable};
use super::{Bench, Route, usual_pairs};
use crate::connect::Access;
use crate::error::Result;
use crate::futex::Tool;
use crate::load::Shape;
use crate::matrix::{Entry, Group};
use crate::report::Experiment;
use crate::sys::SharedCounter;
use crate::url::{System, Target};
use crate::value;

/// Rows of the table unless chosen otherwise.
const ROWS: u64 = 160_000;

/// A store with the target it is in and the routes to it.
pub struct FilledStore {
    /// The filled table or cache.
    pub store: Store,
    /// The system.
    pub target: Target,
    /// Protocols and forms of requests.
    pub routes: Vec<Route>,
}

/// Fills a store in every target (three in PostgreSQL where `all_layouts`);
/// a target that fails is left out with a note.
pub fn filled_stores(
    bench: &mut Bench,
    rows: u64,
    all_layouts: bool,
    notes: &mut Vec<String>,
) -> Vec<FilledStore> {
    let mut found = Vec::new();
    for target in bench.targets.clone() {
        if crate::sys::is_interrupted() {
            break;
        }
        let layouts: &[Layout] = match target.system {
            System::Postgres if all_layouts => &[Layout::Plain, Layout::Hstore, Layout::Jsonb],
            System::Memcached | System::Noop => &[Layout::Items],
            _ => &[Layout::Plain],
        };
        for layout in layouts {
            bench
                .progress
                .say(&format!("   filling {} ({rows} rows)", target.name));
            match fill_store(&target, *layout, rows) {
                Ok(filled) => found.push(filled),
                Err(error) => {
                    let note = format!("{}{} left out: {error}", target.name, words(*layout));
                    bench.progress.say(&format!("   {note}"));
                    notes.push(note);
                }
            }
        }
    }
    found
}

/// Suffix of a system's name for a layout.
fn words(layout: Layout) -> &'static str {
    match layout {
        Layout::Hstore => " hstore",
        Layout::Jsonb => " jsonb",
        Layout::Plain | Layout::Items => "",
    }
}

fn fill_store(target: &Target, layout: Layout, rows: u64) -> Result<FilledStore> {
    let store = Store {
        layout,
        rows,
        length: value::USUAL,
        prefix: target.prefix.clone(),
        inserted: SharedCounter::new(0),
        deleted: SharedCounter::new(0),
        confirmed: SharedCounter::new(0),
        version: SharedCounter::new(1),
    };
    store.fill(target)?;
    let mut routes = super::routes(target);
    for route in &mut routes {
        route.name.push_str(words(layout));
    }
    if target.system != System::Noop {
        for route in &routes {
            check_reachable(&store, &route.endpoint).map_err(|e| e.during(&route.name))?;
        }
    }
    Ok(FilledStore {
        store,
        target: target.clone(),
        routes,
    })
}

/// The routes to all filled stores.
pub fn all_routes(filled_stores: &[FilledStore]) -> Vec<Route> {
    filled_stores
        .iter()
        .flat_map(|p| p.routes.clone())
        .collect()
}

/// The entries of a group: every route, or for deletes those that store rows.
fn entries<'a>(
    filled_stores: &'a [FilledStore],
    operation: Operation,
    seed: u64,
    stream: u64,
    supply: u64,
) -> Vec<Entry<'a>> {
    let mut found = Vec::new();
    for filled in filled_stores {
        let is_noop = filled.target.system == System::Noop;
        if is_noop && operation != Operation::Select {
            continue;
        }
        for route in &filled.routes {
            let access = route.endpoint.access;
            let workload = KvWorkload::new(&filled.store, access, operation, seed, stream);
            let before = (operation == Operation::Delete).then(|| {
                let top_up = move || filled.store.top_up(&filled.target, supply);
                Box::new(top_up) as Box<dyn Fn() -> Result<()> + 'a>
            });
            found.push(Entry {
                system: &route.name,
                endpoint: &route.endpoint,
                workload: Box::new(if is_noop {
                    workload.of_noop_listener()
                } else {
                    workload
                }),
                before,
            });
        }
    }
    found
}

/// `bench kv` and `bench first`, by the name of the experiment.
///
/// # Errors
/// A wrong answer, or no system could be prepared.
pub fn kv(
    bench: &mut Bench,
    name: &str,
    usual_clients: &[usize],
    usual: &[Operation],
) -> Result<()> {
    bench
        .progress
        .begin(&format!("{name}: operations by primary key"));
    let rows = bench.rows(ROWS);
    let mut notes = Vec::new();
    let all_layouts = !bench.options.is_quick;
    let filled_stores = filled_stores(bench, rows, all_layouts, &mut notes);
    if filled_stores.is_empty() {
        let what = format!("{name}: no system could be prepared");
        return Err(super::no_system(&what, &notes));
    }
    let operations = if bench.options.operations.is_empty() {
        usual.to_vec()
    } else {
        bench.options.operations.clone()
    };
    let supply = if bench.options.is_quick {
        30_000
    } else {
        160_000
    };
    let mut groups = Vec::new();
    for operation in operations {
        for clients in bench.clients(usual_clients) {
            let stream = (operation as u64) << 32 | clients as u64;
            groups.push(Group {
                operation: operation.name().to_owned(),
                size: clients as u64,
                connections: clients,
                shape: bench.options.shape,
                units: 1,
                entries: entries(
                    &filled_stores,
                    operation,
                    bench.options.seed,
                    stream,
                    supply,
                ),
            });
        }
    }
    let experiment = Experiment {
        pairs: usual_pairs(&all_routes(&filled_stores)),
        notes,
        ..Experiment::new(
            name,
            "Operations by primary key",
            format!(
                "A table of {rows} rows with an integer key and a value of {} bytes; keys at random, \
                 each operation a transaction of its own. By the memcached protocol INSERT is add, \
                 UPDATE is set, SELECT is get. Every value read is verified.",
                value::USUAL
            ),
            "clients",
        )
    };
    bench.run(experiment, &groups, bench.options.effort)
}

/// The tool that can count the servers' futex calls, or a note if there is none.
fn counting(filled_stores: &[FilledStore], notes: &mut Vec<String>) -> Option<Tool> {
    let pid = filled_stores.iter().find_map(|filled| filled.target.pid)?;
    Tool::find(pid).map_err(|reason| notes.push(reason)).ok()
}

/// `bench connections`.
///
/// # Errors
/// A wrong answer, or no system could be prepared.
pub fn connections(bench: &mut Bench, usual: &[usize]) -> Result<()> {
    bench
        .progress
        .begin("connections: throughput over connections");
    let rows = bench.rows(ROWS);
    let mut notes = Vec::new();
    let mut filled_stores = filled_stores(bench, rows, false, &mut notes);
    // Text and prepared statements differ by their parsing, which `kv` shows.
    for filled in &mut filled_stores {
        filled
            .routes
            .retain(|route| route.endpoint.access != Access::MysqlText);
    }
    if filled_stores.is_empty() {
        return Err(super::no_system(
            "connections: no system could be prepared",
            &notes,
        ));
    }
    let counting = counting(&filled_stores, &mut notes);
    let mut groups = Vec::new();
    for (operation, name) in [(Operation::Select, "point reads"), (Operation::Mix, "mix")] {
        for (shape, words) in [
            (Shape::ThreadEach, "a thread each"),
            (Shape::Multiplexed(2), "2 threads"),
        ] {
            for clients in bench.clients(usual) {
                let stream = (operation as u64) << 32 | clients as u64;
                groups.push(Group {
                    operation: format!("{name}, {words}"),
                    size: clients as u64,
                    connections: clients,
                    shape,
                    units: 1,
                    entries: entries(&filled_stores, operation, bench.options.seed, stream, 0),
                });
            }
        }
    }
    let experiment = Experiment {
        pairs: usual_pairs(&all_routes(&filled_stores)),
        notes,
        ..Experiment::new(
            "connections",
            "Throughput over connections",
            format!(
                "Point reads, and a mixture of 14 reads, 2 updates, an insert and a delete, on a table \
                 of {rows} rows; clients with a thread for each connection, and two threads that \
                 multiplex all of them."
            ),
            "connections",
        )
    };
    let mut effort = bench.options.effort;
    effort.count_futexes = counting;
    bench.run(experiment, &groups, effort)
}
