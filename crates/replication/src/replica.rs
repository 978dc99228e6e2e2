//! A server as a replica: settings of its source, the thread that follows it, and its state.
//!
//! One thread reads events and applies them ([`crate::follow`]). If the connection is lost, or another writer was in the
//! way of a transaction, it connects again and asks for everything after the stored position. Any other failure stops
//! it: the error stays in the state until START REPLICA.
//!
//! Settings are kept with the position ([`crate::position`]), so that a replica that was running goes on after a restart
//! of the server.
//!
//! Invariant: the password is in no message and no state.

mod acknowledge;
mod state;

pub use state::{Activity, LastError, ReplicaState, SourceSettings};

use crate::copied::CopiedTables;
use crate::epoch::EpochKeeper;
use crate::follow::{
    CommitListener, FollowError, FollowOptions, Follower, StatementRunner, WorkerBoard,
};
use crate::gtid::GtidSet;
use crate::position::{AppliedPosition, Coordinates, GtidPosition, PositionTable};
use crate::source::{Divergence, FIRST_POSITION, SourceError, SourceOptions, SourceStream};
use acknowledge::Acknowledgements;
use parking_lot::{Condvar, Mutex};
use porpoise_base::cancel::{Cancel, Reason};
use porpoise_base::threads::{self, Role};
use porpoise_rows::Db;
use std::sync::Arc;
use std::time::Duration;

/// Failure of a statement on the replica.
#[derive(Debug, thiserror::Error)]
pub enum ReplicaError {
    /// The replica is running.
    #[error("This operation cannot be performed with a running replica; run STOP REPLICA first")]
    Running,
    /// There is no source.
    #[error(
        "The server is not configured as a replica; set its source with CHANGE REPLICATION SOURCE TO"
    )]
    NoSource,
    /// A setting is wrong.
    #[error("{0}")]
    Setting(String),
    /// The settings cannot be stored or read.
    #[error("{0}")]
    Rows(#[from] porpoise_rows::Error),
    /// The thread cannot be started.
    #[error("the thread of the replica cannot be started: {0}")]
    Thread(#[from] std::io::Error),
}

impl ReplicaError {
    /// MySQL's error number.
    #[must_use]
    pub fn number(&self) -> u16 {
        match self {
            ReplicaError::Running => 1198,
            ReplicaError::NoSource => 1200,
            ReplicaError::Setting(_) => 1201,
            ReplicaError::Rows(error) => error.code(),
            ReplicaError::Thread(_) => 1202,
        }
    }
}

/// A position given by a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewPosition {
    /// File and position; `None` keeps the present one.
    File(Option<String>, Option<u64>),
    /// Transactions that are taken as applied.
    Gtids(GtidPosition),
}

/// Makes a [`StatementRunner`].
pub type RunnerFactory = Box<dyn Fn(&Cancel) -> Box<dyn StatementRunner> + Send + Sync>;

/// The server's side of a replica: what it needs from the server.
pub struct ReplicaHost {
    /// Makes a session for definitions, which ends its waits on the signal.
    pub runner: RunnerFactory,
    /// The server's id.
    pub server_id: Box<dyn Fn() -> u32 + Send + Sync>,
    /// Whether the replica acknowledges transactions (`rpl_semi_sync_replica_enabled`).
    pub semi_sync: Box<dyn Fn() -> bool + Send + Sync>,
    /// Number of threads that apply transactions (`replica_parallel_workers`).
    pub workers: Box<dyn Fn() -> usize + Send + Sync>,
    /// Keeps the greatest epoch met.
    pub epochs: Arc<dyn EpochKeeper>,
    /// Number of this server's data, if it is a member of a group with automatic failover.
    pub incarnation: Box<dyn Fn() -> Option<u64> + Send + Sync>,
    /// The transactions in this server's own log.
    pub executed: Box<dyn Fn() -> GtidSet + Send + Sync>,
    /// The port of the MySQL listener.
    pub port: u16,
    /// Receives messages for the operator.
    pub report: Box<dyn Fn(&str) + Send + Sync>,
}

/// Pause between two attempts to reach a former source.
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(1);

/// Longest wait for a connection to a leader of the group: as long an attempt may hold up the failover to another one.
const GROUP_CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Longest wait for a row lock.
const LOCK_WAIT: Duration = Duration::from_secs(50);

/// Repetitions of a transaction that conflicts with other writers: MySQL's `replica_transaction_retries`.
const REPETITIONS: u32 = 10;

struct Running {
    cancel: Cancel,
    thread: std::thread::JoinHandle<()>,
}

struct Shared {
    db: Arc<Db>,
    host: ReplicaHost,
    positions: PositionTable,
    state: Mutex<ReplicaState>,
    workers: WorkerBoard,
    /// Wakes the thread from a pause.
    stopped: Condvar,
}

/// The replica of a server.
pub struct Replica {
    shared: Arc<Shared>,
    running: Mutex<Option<Running>>,
    /// Held by each statement that starts, stops or changes the replica, so that none of them acts on a state that
    /// another one is changing.
    statements: Mutex<()>,
}

impl Replica {
    /// Reads settings and position; [`Replica::resume`] starts the thread.
    ///
    /// # Errors
    /// The engine's.
    pub fn open(db: Arc<Db>, host: ReplicaHost) -> Result<Replica, ReplicaError> {
        let positions = PositionTable::new(db.clone());
        let mut state = ReplicaState::default();
        if let Some(stored) = positions.load()? {
            state.settings = parse_settings(&stored)?;
            state.set_position(&stored);
        }
        Ok(Replica {
            shared: Arc::new(Shared {
                db,
                host,
                positions,
                state: Mutex::new(state),
                workers: WorkerBoard::default(),
                stopped: Condvar::new(),
            }),
            running: Mutex::new(None),
            statements: Mutex::new(()),
        })
    }

    /// Starts the thread if the replica was running when the server ended.
    ///
    /// # Errors
    /// No thread can be created.
    pub fn resume(&self) -> Result<(), ReplicaError> {
        let settings = self.shared.state.lock().settings.clone();
        if !settings.is_started && !settings.announces_takeover {
            return Ok(());
        }
        self.spawn()
    }

    /// The present state; `None` if no source was set.
    #[must_use]
    pub fn state(&self) -> Option<ReplicaState> {
        let mut state = self.shared.state.lock().clone();
        state.workers.clone_from(&self.shared.workers.lock());
        (!state.settings.host.is_empty()).then_some(state)
    }

    fn is_running(&self) -> bool {
        self.shared.is_running(self.running.lock().as_ref())
    }

    /// Ends the attempts to reach a former source.
    fn forget_former(&self) {
        if self.shared.state.lock().settings.announces_takeover {
            self.halt();
        }
    }

    /// Changes settings and position.
    ///
    /// # Errors
    /// The replica is running; a setting is wrong.
    pub fn change(
        &self,
        settings: impl FnOnce(&mut SourceSettings),
        position: Option<NewPosition>,
    ) -> Result<(), ReplicaError> {
        let _statement = self.statements.lock();
        self.forget_former();
        if self.is_running() {
            return Err(ReplicaError::Running);
        }
        let mut stored = self.shared.positions.load()?.unwrap_or_default();
        let mut changed = parse_settings(&stored)?;
        let before = (changed.host.clone(), changed.port);
        settings(&mut changed);
        changed.announces_takeover = false;
        if changed.heartbeat_millis == 0 {
            return Err(ReplicaError::Setting(
                "SOURCE_HEARTBEAT_PERIOD must be greater than 0: a lost connection is noticed by its absence".into(),
            ));
        }
        let is_other_source = before != (changed.host.clone(), changed.port);
        match position {
            Some(NewPosition::File(file, at)) => {
                let current = stored.coordinates;
                stored.coordinates = Coordinates {
                    file: file.unwrap_or(current.file),
                    position: at.unwrap_or(FIRST_POSITION),
                };
                stored.pending = None;
            }
            Some(NewPosition::Gtids(gtids)) => {
                stored.gtids = gtids;
                stored.pending = None;
            }
            None if is_other_source => {
                stored.coordinates = Coordinates::default();
                stored.pending = None;
            }
            None => {}
        }
        self.store(&mut stored, changed)
    }

    fn store(
        &self,
        stored: &mut AppliedPosition,
        settings: SourceSettings,
    ) -> Result<(), ReplicaError> {
        self.shared.store(stored, settings)
    }

    fn set_started(
        &self,
        is_started: bool,
        until: Option<(String, u64)>,
    ) -> Result<(), ReplicaError> {
        let mut stored = self
            .shared
            .positions
            .load()?
            .ok_or(ReplicaError::NoSource)?;
        let mut settings = parse_settings(&stored)?;
        if settings.is_started == is_started
            && settings.until == until
            && !settings.announces_takeover
        {
            return Ok(());
        }
        settings.is_started = is_started;
        settings.until = until;
        settings.announces_takeover = false;
        self.store(&mut stored, settings)
    }

    /// Starts the thread, which ends at the end of the first transaction at or after `until`, if it is given. Returns
    /// false if it is running.
    ///
    /// # Errors
    /// There is no source; no thread can be created.
    pub fn start(&self, until: Option<(String, u64)>) -> Result<bool, ReplicaError> {
        let _statement = self.statements.lock();
        self.forget_former();
        if self.is_running() {
            return Ok(false);
        }
        if self
            .state()
            .is_none_or(|state| state.settings.user.is_empty())
        {
            return Err(ReplicaError::NoSource);
        }
        self.set_started(true, until)?;
        self.spawn()?;
        Ok(true)
    }

    fn spawn(&self) -> Result<(), ReplicaError> {
        let mut running = self.running.lock();
        if self.shared.is_running(running.as_ref()) {
            return Ok(());
        }
        // It has reported its end.
        if let Some(ended) = running.take()
            && ended.thread.join().is_err()
        {
            (self.shared.host.report)("the thread of the replica has failed");
        }
        let cancel = Cancel::new();
        {
            let mut state = self.shared.state.lock();
            state.activity = Activity::Connecting;
            state.connection_error = LastError::default();
            state.apply_error = LastError::default();
            state.divergence = None;
            state.transactions = 0;
            state.heartbeats = (0, 0);
            state.started = self.shared.db.clock().unix_micros();
        }
        let (shared, own) = (self.shared.clone(), cancel.clone());
        let thread = threads::spawn(Role::Replica, move || {
            shared.run(&own);
            shared.state.lock().activity = Activity::Stopped;
        })?;
        *running = Some(Running { cancel, thread });
        Ok(())
    }

    /// Stops the thread and waits for its end. Returns false if it was not running.
    ///
    /// # Errors
    /// The setting cannot be stored.
    pub fn stop(&self) -> Result<bool, ReplicaError> {
        let _statement = self.statements.lock();
        let was_running = self.halt();
        if self.state().is_some() {
            self.set_started(false, None)?;
        }
        Ok(was_running)
    }

    /// Announces to the source, if there is one, that this server has taken over, as soon as it can be reached.
    ///
    /// # Errors
    /// The setting cannot be stored; no thread can be created.
    pub fn announce_takeover(&self) -> Result<(), ReplicaError> {
        let Some(mut stored) = self.shared.positions.load()? else {
            return Ok(());
        };
        let mut settings = parse_settings(&stored)?;
        if settings.user.is_empty() {
            return Ok(());
        }
        settings.announces_takeover = true;
        self.store(&mut stored, settings)?;
        self.spawn()
    }

    /// Whether the replica follows its source.
    #[must_use]
    pub fn follows(&self) -> bool {
        self.is_running() && !self.shared.state.lock().settings.announces_takeover
    }

    /// Stops the thread until the next start of the server.
    pub fn halt(&self) -> bool {
        let Some(running) = self.running.lock().take() else {
            return false;
        };
        let was_running = self.shared.is_running(Some(&running));
        running.cancel.cancel(Reason::Shutdown);
        self.shared.stopped.notify_all();
        if running.thread.join().is_err() {
            (self.shared.host.report)("the thread of the replica has failed");
        }
        was_running
    }

    /// Forgets the position, and with `all` also the source.
    ///
    /// # Errors
    /// The replica is running.
    pub fn reset(&self, all: bool) -> Result<(), ReplicaError> {
        let _statement = self.statements.lock();
        self.forget_former();
        if self.is_running() {
            return Err(ReplicaError::Running);
        }
        if all {
            self.shared.positions.remove()?;
            *self.shared.state.lock() = ReplicaState::default();
            return Ok(());
        }
        let Some(stored) = self.shared.positions.load()? else {
            return Ok(());
        };
        let settings = parse_settings(&stored)?;
        // As with MySQL, the GTIDs of applied transactions stay.
        let mut fresh = AppliedPosition {
            gtids: stored.gtids,
            ..AppliedPosition::default()
        };
        self.store(&mut fresh, settings)
    }

    /// Lets the next transactions be skipped.
    ///
    /// # Errors
    /// The replica is running.
    pub fn set_skip(&self, transactions: u64) -> Result<(), ReplicaError> {
        let _statement = self.statements.lock();
        if self.is_running() {
            return Err(ReplicaError::Running);
        }
        self.shared.state.lock().to_skip = transactions;
        Ok(())
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.halt();
    }
}

fn settings_text(settings: &SourceSettings) -> Result<String, ReplicaError> {
    serde_json::to_string(settings).map_err(|error| ReplicaError::Setting(error.to_string()))
}

fn parse_settings(stored: &AppliedPosition) -> Result<SourceSettings, ReplicaError> {
    if stored.settings.is_empty() {
        return Ok(SourceSettings::default());
    }
    serde_json::from_str(&stored.settings).map_err(|error| {
        ReplicaError::Setting(format!(
            "the stored settings of the source cannot be read ({error}); run RESET REPLICA ALL"
        ))
    })
}

fn unreadable(what: &str, error: &porpoise_rows::Error) -> Ended {
    Ended::Apply(FollowError {
        number: error.code(),
        message: format!("{what} cannot be read: {error}"),
        is_transient: false,
    })
}

fn no_thread(error: &std::io::Error) -> Ended {
    Ended::Apply(FollowError {
        number: 1202,
        message: format!("the workers of the replica cannot be started: {error}"),
        is_transient: false,
    })
}

/// The reason why following has ended.
enum Ended {
    Stopped,
    /// The position of START REPLICA UNTIL is reached.
    Reached,
    Source(SourceError),
    Apply(FollowError),
}

impl Shared {
    fn now(&self) -> i64 {
        self.db.clock().unix_micros()
    }

    /// Whether the thread follows the source: one that has reported its end does not, although it may exist for another moment.
    fn is_running(&self, running: Option<&Running>) -> bool {
        running.is_some_and(|running| !running.thread.is_finished())
            && self.state.lock().activity != Activity::Stopped
    }

    fn store(
        &self,
        stored: &mut AppliedPosition,
        settings: SourceSettings,
    ) -> Result<(), ReplicaError> {
        stored.settings = settings_text(&settings)?;
        self.positions.save(stored)?;
        let mut state = self.state.lock();
        state.settings = settings;
        state.set_position(stored);
        Ok(())
    }

    /// Stores the position at which the replica has stopped, and that it is not to be started again with the server.
    fn end_at_until(&self, read: &Coordinates) -> Result<(), ReplicaError> {
        let mut stored = self.positions.load()?.ok_or(ReplicaError::NoSource)?;
        let mut settings = parse_settings(&stored)?;
        settings.is_started = false;
        settings.until = None;
        // This position is after events that belong to no transaction, such as those that begin a file.
        stored.coordinates = read.clone();
        self.store(&mut stored, settings)
    }

    /// Follows the source until it is stopped, or until an error that trying again does not mend.
    fn run(self: &Arc<Shared>, cancel: &Cancel) {
        if self.state.lock().settings.announces_takeover {
            self.announce_to_former_source(cancel);
            return;
        }
        let (mut attempts, mut repetitions) = (0, 0);
        while cancel.reason().is_none() {
            let before = self.state.lock().transactions;
            let ended = self.follow(cancel);
            if self.state.lock().transactions > before {
                (attempts, repetitions) = (0, 0);
            }
            match ended {
                Ended::Stopped | Ended::Reached => return,
                Ended::Source(error) => {
                    attempts += 1;
                    if !self.connect_again(&error, attempts, cancel) {
                        return;
                    }
                }
                Ended::Apply(error) if error.is_transient && repetitions < REPETITIONS => {
                    repetitions += 1;
                    self.state.lock().repeated += 1;
                    self.pause(Duration::from_millis(100) * repetitions, cancel);
                }
                Ended::Apply(_) if cancel.reason().is_some() => return,
                Ended::Apply(error) => {
                    (self.host.report)(&format!("replica stopped: {error}"));
                    self.state.lock().apply_error = LastError {
                        number: error.number,
                        message: error.message,
                        time: self.now(),
                    };
                    return;
                }
            }
        }
    }

    /// Announces to a former source that its epoch is over, as soon as it can be reached.
    fn announce_to_former_source(&self, cancel: &Cancel) {
        while cancel.reason().is_none() {
            let settings = self.state.lock().settings.clone();
            let own = self.host.epochs.epoch();
            match SourceStream::open(&self.options(&settings), &Coordinates::default(), None) {
                Err(SourceError::Outdated { .. }) => break,
                // It already knows the epoch.
                Ok(stream) if stream.epoch() >= own => break,
                _ => self.pause(ANNOUNCE_INTERVAL, cancel),
            }
        }
        if cancel.reason().is_some() {
            return;
        }
        (self.host.report)("the former source knows that this server has taken over");
        let cleared = self.positions.load().map_err(ReplicaError::from);
        let cleared = cleared.and_then(|stored| {
            let Some(mut stored) = stored else {
                return Ok(());
            };
            let mut settings = parse_settings(&stored)?;
            settings.announces_takeover = false;
            stored.settings = settings_text(&settings)?;
            self.positions.save(&stored)?;
            self.state.lock().settings = settings;
            Ok(())
        });
        if let Err(error) = cleared {
            (self.host.report)(&format!("the replica's settings cannot be stored: {error}"));
        }
    }

    /// Records the epoch of a source.
    fn meet(&self, epoch: u64) -> Result<(), Ended> {
        self.host.epochs.meet(epoch).map_err(|error| {
            Ended::Apply(FollowError {
                number: 1593,
                message: format!("the epoch of the source cannot be recorded: {error}"),
                is_transient: false,
            })
        })
    }

    fn options(&self, settings: &SourceSettings) -> SourceOptions {
        let incarnation = (self.host.incarnation)();
        let mut target = settings.target();
        if incarnation.is_some() {
            target.connect_timeout = GROUP_CONNECT_TIMEOUT;
        }
        SourceOptions {
            target,
            server_id: (self.host.server_id)(),
            port: self.host.port,
            heartbeat: Duration::from_millis(settings.heartbeat_millis),
            semi_sync: (self.host.semi_sync)(),
            epoch: self.host.epochs.epoch(),
            incarnation,
        }
    }

    /// Records an error of the source and waits. Returns false if trying again is of no use.
    fn connect_again(&self, error: &SourceError, attempts: u64, cancel: &Cancel) -> bool {
        let (retry, limit, user, host, port) = {
            let mut state = self.state.lock();
            let settings = &state.settings;
            let found = (
                settings.connect_retry,
                settings.retry_count,
                settings.user.clone(),
                settings.host.clone(),
                settings.port,
            );
            state.activity = Activity::Connecting;
            state.divergence = Divergence::of(error);
            state.connection_error = LastError {
                number: error.number(),
                message: format!(
                    "error following source '{}@{}:{}' - retry-time: {} retries: {attempts} message: {error}",
                    found.2, found.3, found.4, found.0
                ),
                time: self.now(),
            };
            found
        };
        if attempts == 1 {
            (self.host.report)(&format!("replica: source {user}@{host}:{port}: {error}"));
        }
        if !error.is_transient() || (limit > 0 && attempts > limit) {
            (self.host.report)(&format!("replica stopped: source {host}:{port}: {error}"));
            return false;
        }
        // The first attempt follows at once: most often the source has restarted, or ended a connection.
        let pause = match attempts {
            1 => Duration::from_millis(500).min(Duration::from_secs(retry)),
            _ => Duration::from_secs(retry),
        };
        self.pause(pause, cancel);
        true
    }

    fn pause(&self, pause: Duration, cancel: &Cancel) {
        let mut state = self.state.lock();
        let until = std::time::Instant::now() + pause;
        while cancel.reason().is_none() {
            let left = until.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return;
            }
            // Woken early by `halt`; a wake-up between the check and the wait costs one slice.
            self.stopped
                .wait_for(&mut state, left.min(Duration::from_millis(500)));
        }
    }

    /// Records each commit of the follower in the state.
    fn listener(self: &Arc<Shared>) -> CommitListener {
        let shared = self.clone();
        Arc::new(move |applied, timestamp| {
            let mut state = shared.state.lock();
            state.transactions += 1;
            state.applied.clone_from(&applied.coordinates);
            state.gtids.clone_from(&applied.gtids);
            if timestamp != 0 {
                state.event_time = timestamp;
            }
        })
    }

    fn follow_options(
        self: &Arc<Shared>,
        settings: &SourceSettings,
        copied: CopiedTables,
        server_id: u32,
        cancel: &Cancel,
    ) -> FollowOptions {
        // An import stops and moves the replica, and reads its position in between.
        let is_import = copied != CopiedTables::default();
        FollowOptions {
            server_id,
            filters: settings.filters.clone(),
            copied,
            lock_wait: LOCK_WAIT,
            cancel: cancel.clone(),
            workers: if is_import { 0 } else { (self.host.workers)() },
            board: self.workers.clone(),
            listener: self.listener(),
        }
    }

    fn follow(self: &Arc<Shared>, cancel: &Cancel) -> Ended {
        let (settings, to_skip) = {
            let state = self.state.lock();
            (state.settings.clone(), state.to_skip)
        };
        // What is stored, not what was last known: the outcome of a commit may have been unknown.
        let applied = match self.positions.load() {
            Ok(stored) => stored.unwrap_or_default(),
            Err(error) => return unreadable("the stored position", &error),
        };
        if let Some(until) = &settings.until
            && !applied.coordinates.file.is_empty()
            && applied.coordinates.is_at_or_after(&until.0, until.1)
        {
            return self.reached(&applied.coordinates);
        }
        let copied = match CopiedTables::load(&self.db) {
            Ok(copied) => copied,
            Err(error) => return unreadable("the progress of an import", &error),
        };
        let mut applied = applied;
        if settings.auto_position {
            // As in MySQL, transactions that are in this server's own log are not requested either.
            applied.gtids.mysql.union_with(&(self.host.executed)());
        }
        let options = self.options(&settings);
        let server_id = options.server_id;
        let gtids = settings.auto_position.then_some(&applied.gtids);
        let mut stream = match SourceStream::open(&options, &applied.coordinates, gtids) {
            Ok(stream) => stream,
            Err(error) => {
                // This server is a former source: it refuses writes from now on, although it cannot follow.
                if let SourceError::Diverged { epoch, .. } = error
                    && let Err(ended) = self.meet(epoch)
                {
                    return ended;
                }
                return Ended::Source(error);
            }
        };
        if let Err(ended) = self.meet(stream.epoch()) {
            return ended;
        }
        {
            let mut state = self.state.lock();
            state.source = Some(stream.identity().clone());
            state.activity = Activity::Applying;
            state.connection_error = LastError::default();
            state.divergence = None;
        }
        let options = self.follow_options(&settings, copied, server_id, cancel);
        self.workers.lock().clear();
        let runner = (self.host.runner)(cancel);
        let follower = Follower::new(self.db.clone(), options, runner, applied, to_skip);
        let mut follower = match follower {
            Ok(follower) => follower,
            Err(error) => return no_thread(&error),
        };
        let ended = self.apply_events(&mut stream, &mut follower, &settings, cancel);
        if matches!(ended, Ended::Reached) {
            return self.reached(follower.read());
        }
        self.state.lock().read = follower.applied().coordinates;
        ended
    }

    fn apply_events(
        &self,
        stream: &mut SourceStream,
        follower: &mut Follower,
        settings: &SourceSettings,
        cancel: &Cancel,
    ) -> Ended {
        let mut is_settled = true;
        let mut acks = Acknowledgements::default();
        let delay = i64::try_from(settings.delay).unwrap_or(i64::MAX);
        loop {
            if cancel.reason().is_some() {
                return Ended::Stopped;
            }
            if let Some(until) = &settings.until
                && !follower.is_inside()
                && follower.read().is_at_or_after(&until.0, until.1)
            {
                return follower
                    .drain()
                    .map_or_else(Ended::Apply, |()| Ended::Reached);
            }
            if let Err(ended) = acks.send(stream, follower) {
                return ended;
            }
            let (header, event) = match stream.next_event() {
                Ok(Some(event)) => event,
                Ok(None) => {
                    if let Err(error) = self.settle(follower, Activity::Waiting) {
                        return Ended::Apply(error);
                    }
                    continue;
                }
                Err(error) => return Ended::Source(error),
            };
            if let crate::event::Event::Heartbeat(_) = event {
                let mut state = self.state.lock();
                state.heartbeats = (state.heartbeats.0 + 1, self.now());
                drop(state);
                if let Err(error) = self.settle(follower, Activity::Waiting) {
                    return Ended::Apply(error);
                }
                continue;
            }
            self.delay(i64::from(header.timestamp), delay, cancel);
            let done = follower.event(&header, event, stream.format());
            {
                let mut state = self.state.lock();
                state.activity = Activity::Applying;
                // The lag is that of the oldest transaction that is not applied.
                if is_settled && header.timestamp != 0 {
                    state.event_time = header.timestamp;
                }
                state.read.clone_from(follower.read());
                state.to_skip = follower.to_skip();
            }
            is_settled = match done.and_then(|()| self.settle(follower, Activity::Applying)) {
                Ok(is_settled) => is_settled,
                Err(error) => return Ended::Apply(error),
            };
            if stream.is_ack_requested() {
                acks.request(follower);
            }
        }
    }

    /// If everything that was read is applied, shows that position and what the thread does.
    /// Returns whether it is.
    fn settle(&self, follower: &mut Follower, activity: Activity) -> Result<bool, FollowError> {
        let Some(applied) = follower.settle()? else {
            return Ok(false);
        };
        let mut state = self.state.lock();
        // Also after events between transactions, which change no row.
        if state.applied != *applied {
            state.applied.clone_from(applied);
        }
        state.activity = activity;
        Ok(true)
    }

    fn reached(&self, read: &Coordinates) -> Ended {
        match self.end_at_until(read) {
            Ok(()) => Ended::Reached,
            Err(error) => Ended::Apply(FollowError {
                number: error.number(),
                message: format!("the position cannot be stored: {error}"),
                is_transient: false,
            }),
        }
    }

    /// Waits until an event of this time is old enough (SOURCE_DELAY).
    fn delay(&self, written: i64, delay: i64, cancel: &Cancel) {
        if delay == 0 || written == 0 {
            return;
        }
        let due = written.saturating_add(delay).saturating_mul(1_000_000);
        if let Ok(left @ 1..) = u64::try_from(due - self.now()) {
            self.pause(Duration::from_micros(left), cancel);
        }
    }
}
