//! Runs events at their times (manual, "Using the Event Scheduler").
//!
//! One thread checks twice a second which events are due. Each runs in a thread and a session of its
//! own, with the rights of its definer, also while an earlier run of it continues; at most
//! [`MAX_RUNNING`] run at a time, others wait. Of a recurring event, times that passed while the server
//! was not running, or while `event_scheduler` was OFF, are left out; one that runs once is made up for.
//!
//! Invariants:
//! 1. Events run only between [`EventScheduler::start`] and the return of [`EventScheduler::stop`],
//!    which ends those that are running.
//! 2. An event that has run for the last time is dropped, or disabled with ON COMPLETION PRESERVE.
//! 3. The start of a run is recorded before the event's body is executed
//!    ([`porpoise_access::event_runs`]). The body of an event that runs once waits until the record
//!    is durable, so that the event does not run again after a crash, even if it was not completed.
//!    A recurring event does not wait: times that passed before a restart are skipped in any case.
//! 4. Each run takes place on one server of a cluster: the first that records its start
//!    ([`event_runs::claim`]). All servers plan all events, so that no election is needed and the
//!    loss of a server delays no event.
//!
//! The thread also applies system variables that other servers persist ([`crate::shared_variables`]).

use crate::client::ClientInfo;
use crate::event_schedule::next_run;
use crate::server::SqlServer;
use crate::shared_variables::SharedVariables;
use parking_lot::{Condvar, Mutex};
use porpoise_access::AuthId;
use porpoise_access::event_runs::{self, EventRun};
use porpoise_base::cancel::{Cancel, Reason};
use porpoise_base::threads::{self, Role};
use porpoise_rows::catalog::{Event, EventKey, EventSchedule};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Maximum number of events that run at a time.
const MAX_RUNNING: usize = 32;

/// Interval between two checks for due events.
const PAUSE: Duration = Duration::from_millis(500);

/// Connection id of the first session of an event; clients have smaller ones.
const FIRST_ID: u64 = 1 << 40;

/// Time that running events have to end at a shutdown.
const STOP: Duration = Duration::from_secs(10);

/// Receives messages about events that failed.
pub type Report = Arc<dyn Fn(&str) + Send + Sync>;

#[derive(Default)]
struct State {
    stopping: bool,
    /// Sessions that run events.
    running: HashMap<u64, Cancel>,
    next_id: u64,
}

struct Inner {
    server: Arc<SqlServer>,
    report: Report,
    state: Mutex<State>,
    changed: Condvar,
}

/// The thread that runs events.
pub struct EventScheduler {
    inner: Arc<Inner>,
    thread: Option<JoinHandle<()>>,
}

/// Outcome of the attempt to begin a run.
enum Begun {
    Here,
    /// An event that runs once has begun before the server was restarted.
    BeforeRestart,
    /// Another server of the cluster runs it.
    Elsewhere,
}

/// An event and the next time at which it runs.
type Planned = (Arc<Event>, Option<i64>);

impl EventScheduler {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system's error when no thread can be created.
    pub fn start(server: Arc<SqlServer>, report: Report) -> std::io::Result<EventScheduler> {
        let inner = Arc::new(Inner {
            server,
            report,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let (own, started) = (inner.clone(), inner.now());
        let work = move || own.clone().run(started);
        let thread = threads::spawn_restarting(Role::EventScheduler, work)?;
        Ok(EventScheduler {
            inner,
            thread: Some(thread),
        })
    }

    /// Ends the thread and the running events.
    pub fn stop(&mut self) {
        let mut state = self.inner.state.lock();
        state.stopping = true;
        for cancel in state.running.values() {
            cancel.cancel(Reason::Shutdown);
        }
        self.inner.changed.notify_all();
        while !state.running.is_empty() {
            if self.inner.changed.wait_for(&mut state, STOP).timed_out() {
                (self.inner.report)("events are still running at the shutdown");
                break;
            }
        }
        drop(state);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            (self.inner.report)("the event scheduler has failed");
        }
    }
}

impl Inner {
    fn now(&self) -> i64 {
        self.server.db.clock().unix_micros()
    }

    /// Runs events until it is stopped. The scheduler was `started` at that time.
    fn run(self: Arc<Inner>, started: i64) {
        let mut planned: HashMap<EventKey, Planned> = HashMap::new();
        let mut variables = SharedVariables::default();
        let mut state = self.state.lock();
        while !state.stopping {
            drop(state);
            // A failure is that of the store, which every statement reports; the next round tries again.
            let _ = variables.follow(&self.server);
            let on = self.server.variable("event_scheduler").as_deref() == Some("ON");
            let now = self.now();
            if on {
                self.plan(&mut planned, started);
                self.run_due(&mut planned, now);
            } else {
                planned.clear();
            }
            state = self.state.lock();
            if !state.stopping {
                self.changed.wait_for(&mut state, PAUSE);
            }
        }
    }

    /// Computes the next times of events that are new or changed.
    fn plan(&self, planned: &mut HashMap<EventKey, Planned>, started: i64) {
        let catalog = self.server.db.catalog();
        planned.retain(|key, _| catalog.events.contains_key(key));
        let runs = &self.server.event_runs;
        let gone = runs.retain(|key| catalog.events.contains_key(key));
        if let Err(error) = event_runs::forget(&self.server.db, &gone) {
            (self.report)(&format!(
                "the records of runs of dropped events could not be deleted: {error}"
            ));
        }
        let now = self.now();
        for (key, event) in &catalog.events {
            let known = planned.get(key).is_some_and(|(e, _)| e == event);
            if !known {
                // A new event may have begun since the last look; one that runs once was not run yet.
                let since = if matches!(event.schedule, EventSchedule::At(_)) {
                    i64::MIN
                } else if event.modified >= started {
                    let since = event.modified.min(now) - 1_000_000;
                    runs.last(event).map_or(since, |last| last.max(since))
                } else {
                    now
                };
                let next = next_run(event, since);
                planned.insert(key.clone(), (event.clone(), next));
            }
        }
    }

    fn run_due(self: &Arc<Inner>, planned: &mut HashMap<EventKey, Planned>, now: i64) {
        for (event, next) in planned.values_mut() {
            if next.is_none_or(|at| at > now) {
                continue;
            }
            let after = next_run(event, now);
            if self.execute(event, next.unwrap_or(now), after.is_none()) {
                *next = after;
            }
        }
    }

    /// Runs an event that is due at `due` in a thread of its own. Returns false if none can be had now.
    fn execute(self: &Arc<Inner>, event: &Arc<Event>, due: i64, is_last: bool) -> bool {
        let cancel = Cancel::new();
        let id = {
            let mut state = self.state.lock();
            if state.stopping || state.running.len() >= MAX_RUNNING {
                return false;
            }
            let id = FIRST_ID + state.next_id;
            state.next_id += 1;
            state.running.insert(id, cancel.clone());
            id
        };
        let (own, event) = (self.clone(), event.clone());
        let work = move || {
            let ended = catch_unwind(AssertUnwindSafe(|| {
                own.run_event(id, cancel, &event, due, is_last);
            }));
            if ended.is_err() {
                let (database, name) = event.key();
                (own.report)(&format!("event `{database}`.`{name}` has panicked"));
            }
            own.state.lock().running.remove(&id);
            own.changed.notify_all();
        };
        if threads::spawn(Role::EventWorker, work).is_ok() {
            return true;
        }
        self.state.lock().running.remove(&id);
        false
    }

    /// Records the start of a run.
    fn begin(&self, event: &Event, due: i64) -> porpoise_sql_expr::error::Result<Begun> {
        let runs = &self.server.event_runs;
        let runs_once = match event.schedule {
            EventSchedule::At(at) if runs.last(event).is_some_and(|last| last >= at) => {
                return Ok(Begun::BeforeRestart);
            }
            EventSchedule::At(_) => true,
            EventSchedule::Every { .. } => false,
        };
        let run = EventRun {
            event: event.key(),
            created: event.created,
            began: self.now(),
        };
        let db = &self.server.db;
        let is_ours = if db.is_clustered() {
            event_runs::claim(db, &run, due)?
        } else {
            event_runs::record(db, &run, runs_once)?;
            true
        };
        runs.begin(run);
        Ok(if is_ours {
            Begun::Here
        } else {
            Begun::Elsewhere
        })
    }

    fn run_event(&self, id: u64, cancel: Cancel, event: &Arc<Event>, due: i64, is_last: bool) {
        let AuthId { user, .. } = AuthId::parse(&event.definer);
        let info = ClientInfo {
            connection_id: id,
            user,
            host: "localhost".to_owned(),
            account: event.definer.clone(),
            capabilities: 0,
            collation: 0,
            database: None,
        };
        let ran = self.server.connect(info, cancel).and_then(|mut session| {
            let ran = match self.begin(event, due) {
                Ok(Begun::Here) => session.run_event(event),
                Ok(Begun::BeforeRestart) => Ok(()),
                Ok(Begun::Elsewhere) => return Ok(()),
                Err(error) => Err(error),
            };
            if is_last {
                session.complete_event(event)?;
            }
            ran
        });
        let Err(error) = ran else {
            return;
        };
        let runs = &self.server.event_runs;
        if let Some(before) = runs.fail(event.key(), self.now(), &error) {
            let (database, name) = event.key();
            let more = match before {
                0 => String::new(),
                n => format!(" ({n} failures before it were not reported)"),
            };
            (self.report)(&format!(
                "event `{database}`.`{name}` failed: {error}{more}"
            ));
        }
    }
}
