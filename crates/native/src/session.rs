//! A connection: login, requests, an open transaction.
//!
//! The server reads frames and calls [`Session::run`] with each; the answer is appended to the
//! [`Sink`].

use crate::batch::Executor;
use crate::changes::Subscription;
use crate::context::{Context, MAX_ATTEMPTS};
use crate::counters::{self, Counter};
use crate::failure::{Failure, is_retryable, put_error, put_message};
use crate::identity::Identity;
use crate::login::{Authentication, Granted, Refused, Step};
use crate::operation_statistics::Effects;
use crate::plan::Plans;
use crate::settings::{Client, ListenerState, Monitor, SessionInfo};
use crate::sink::{NextAction, RequestOutcome, Sink};
use crate::{scan, schema};
use porpoise_access::is_system_schema;
use porpoise_base::interrupt::Scope;
use porpoise_base::memory::ConnectionMemory;
use porpoise_kv::{self as kv, CommitPosition};
use porpoise_rows::catalog::Table;
use porpoise_rows::{Error, Txn};
use porpoise_wire::mysql::handshake::random_salt;
use porpoise_wire::native::batch::Batch;
use porpoise_wire::native::changes::{Subscribe, parse_wait};
use porpoise_wire::native::frame::{self, Header, Kind, LAST, MAX_BODY, MAX_BODY_BEFORE_LOGIN};
use porpoise_wire::native::message::{
    self, CONNECTION_ENDS, Greeting, Isolation, OpenTable, SALT, TRANSACTION_ENDED,
};
use porpoise_wire::native::scan::Scan;
use porpoise_wire::native::{Malformed, NATIVE_FORMAT_VERSION, OLDEST_VERSION};
use std::sync::Arc;
use std::time::Duration;

/// Number of requests that a client may have in flight. The server does not enforce it: it stops
/// reading requests while the client does not read answers, so that excess requests wait.
const WINDOW: u32 = 1024;

/// A connection.
pub struct Session {
    shared: Arc<ListenerState>,
    client: Client,
    state: State,
}

enum State {
    /// The login request is awaited, as an answer to this challenge.
    Greeted([u8; SALT]),
    /// A login in progress.
    Login(Box<Authentication>),
    /// Logged in.
    Open(Box<Open>),
}

/// A connection that has logged in.
pub(crate) struct Open {
    identity: Identity,
    plans: Plans,
    context: Context,
    txn: Option<Txn>,
    /// Whether an error has rolled back the open transaction, and the client has not ended it yet.
    /// Requests sent before the client received the error must not take effect outside of the
    /// transaction.
    is_aborted: bool,
    monitor: Box<dyn Monitor>,
    subscription: Option<Box<Subscription>>,
}

impl Session {
    pub(crate) fn new(shared: Arc<ListenerState>, client: Client) -> Session {
        Session {
            shared,
            client,
            state: State::Greeted([0; SALT]),
        }
    }

    /// Answers the preamble of a client that speaks these versions.
    pub fn greet(&mut self, (lowest, highest): (u8, u8), out: &mut Vec<u8>) -> NextAction {
        let version = NATIVE_FORMAT_VERSION.min(highest);
        if version < lowest || version < OLDEST_VERSION {
            let text = format!(
                "The server speaks versions {OLDEST_VERSION} to {NATIVE_FORMAT_VERSION} of the native \
                 protocol, and the client versions {lowest} to {highest}"
            );
            put_failure(out, 0, 1047, "08S01", &text, CONNECTION_ENDS);
            return NextAction::Close;
        }
        let Some(salt) = random_salt() else {
            put_failure(out, 0, 1041, "HY000", "No random numbers", CONNECTION_ENDS);
            return NextAction::Close;
        };
        self.state = State::Greeted(salt);
        let at = frame::begin(out, Kind::Greeting, 0);
        Greeting {
            version,
            connection: self.client.id,
            salt,
            max_body: u32::try_from(MAX_BODY).unwrap_or(u32::MAX),
            window: WINDOW,
            server: &self.shared.settings.server_version,
        }
        .put(out);
        frame::finish(out, at, LAST);
        NextAction::Continue
    }

    /// Whether the client has logged in.
    pub fn is_logged_in(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// Whether a transaction is open, which may hold locks.
    pub fn holds_locks(&self) -> bool {
        matches!(&self.state, State::Open(open) if open.txn.is_some())
    }

    /// Largest body of a request.
    pub fn max_body(&self) -> usize {
        if self.is_logged_in() {
            MAX_BODY
        } else {
            MAX_BODY_BEFORE_LOGIN
        }
    }

    /// Executes a request, and appends its answer.
    pub fn run(&mut self, header: Header, body: &[u8], sink: &mut dyn Sink) -> RequestOutcome {
        match &mut self.state {
            State::Open(open) => open.run(&self.shared, header, body, sink),
            State::Greeted(_) | State::Login(_) => {
                let then = self.log_in(header, body, sink.buf());
                RequestOutcome::now(then)
            }
        }
    }

    fn log_in(&mut self, header: Header, body: &[u8], out: &mut Vec<u8>) -> NextAction {
        let step = match (&mut self.state, header.kind) {
            (State::Greeted(salt), Kind::Login) => match message::Login::parse(body) {
                Ok(request) => {
                    let salt = *salt;
                    let (login, step) =
                        Authentication::begin(&self.shared, &self.client, salt, &request);
                    self.state = State::Login(Box::new(login));
                    step
                }
                Err(malformed) => return put_malformed(out, header.request, malformed),
            },
            (State::Login(login), Kind::Authentication) => {
                login.more(&self.shared, &self.client, body)
            }
            _ => {
                let malformed = Malformed("login: another frame was expected");
                return put_malformed(out, header.request, malformed);
            }
        };
        self.conclude(step, header.request, out)
    }

    fn conclude(&mut self, step: Step, request: u32, out: &mut Vec<u8>) -> NextAction {
        let put_message = |out: &mut Vec<u8>, message: &[u8]| {
            if !message.is_empty() {
                frame::put(out, Kind::Authentication, request, 0, message);
            }
        };
        match step {
            Step::Wait(message) => {
                put_message(out, &message);
                NextAction::Continue
            }
            Step::Granted(message, granted) => {
                put_message(out, &message);
                frame::put(out, Kind::Ready, request, LAST, &[]);
                let delay = granted.delay;
                self.open(granted);
                delayed(delay, false)
            }
            Step::Refused(Refused {
                code,
                sqlstate,
                text,
                delay,
            }) => {
                put_failure(out, request, code, sqlstate, &text, CONNECTION_ENDS);
                delayed(delay, true)
            }
        }
    }

    fn open(&mut self, granted: Granted) {
        let client = &self.client;
        let info = SessionInfo {
            connection: client.id,
            user: &granted.user,
            host: &client.host,
            account: &granted.account,
            named_at: granted.version,
            cancel: &client.cancel,
        };
        self.state = State::Open(Box::new(Open::new(&self.shared, &info, &client.memory)));
    }
}

fn delayed(delay: Duration, close: bool) -> NextAction {
    if !delay.is_zero() {
        NextAction::Delay { delay, close }
    } else if close {
        NextAction::Close
    } else {
        NextAction::Continue
    }
}

fn put_failure(out: &mut Vec<u8>, request: u32, code: u16, sqlstate: &str, text: &str, flags: u8) {
    let at = frame::begin(out, Kind::Error, request);
    out.push(flags);
    put_message(out, code, sqlstate, text);
    frame::finish(out, at, LAST);
}

fn put_malformed(out: &mut Vec<u8>, request: u32, malformed: Malformed) -> NextAction {
    refuse_malformed(out, request, malformed);
    NextAction::Close
}

/// Appends the error for bytes that are not a frame or not a message. The connection must end.
pub(crate) fn refuse_malformed(out: &mut Vec<u8>, request: u32, malformed: Malformed) {
    let text = format!("Malformed communication packet: {}", malformed.0);
    put_failure(out, request, 1835, "HY000", &text, CONNECTION_ENDS);
}

impl Session {
    /// Appends the error for bytes that are not a frame. The connection must end.
    pub fn refuse(out: &mut Vec<u8>, malformed: Malformed) {
        refuse_malformed(out, 0, malformed);
    }

    /// Appends an error that ends the connection.
    pub fn end_with(out: &mut Vec<u8>, code: u16, sqlstate: &str, text: &str) {
        put_failure(out, 0, code, sqlstate, text, CONNECTION_ENDS);
    }
}

impl Open {
    /// The session of a login, which is listed among the sessions until it is dropped.
    pub(crate) fn new(
        shared: &ListenerState,
        info: &SessionInfo<'_>,
        memory: &Arc<ConnectionMemory>,
    ) -> Open {
        let settings = &shared.settings;
        let (control, host) = (settings.control.clone(), info.host.to_owned());
        Open {
            identity: Identity::new(control, info.account.clone(), info.named_at, host),
            plans: Plans::default(),
            context: Context::new(shared.db.clone(), info.cancel.clone(), memory),
            txn: None,
            is_aborted: false,
            monitor: (settings.add_session)(info),
            subscription: None,
        }
    }

    fn run(
        &mut self,
        shared: &ListenerState,
        header: Header,
        body: &[u8],
        sink: &mut dyn Sink,
    ) -> RequestOutcome {
        // KILL QUERY of an earlier request has no effect on this one.
        self.context.cancel.clear_query();
        let _scope = Scope::enter(&self.context.cancel);
        let start = sink.buf().len();
        let done = self.execute(shared, header, body, sink);
        self.monitor.end();
        if self.txn.is_some() {
            self.context.end_request();
        }
        self.context.release_memory();
        match done {
            Ok(position) => RequestOutcome {
                position,
                then: NextAction::Continue,
            },
            Err(failure) => self.fail(failure, header, start, sink),
        }
    }

    /// Appends the error of a request in place of its answer.
    fn fail(
        &mut self,
        failure: Failure,
        header: Header,
        start: usize,
        sink: &mut dyn Sink,
    ) -> RequestOutcome {
        counters::add(Counter::Failed, 1);
        let error = match failure {
            Failure::Rows(error) => {
                sink.buf().truncate(start);
                error
            }
            // `start` is invalid, because the output was sent in the meantime.
            Failure::AfterFrames(error) => error,
            Failure::Operation | Failure::Gone => return RequestOutcome::now(NextAction::Close),
        };
        let mut flags = 0;
        if self.is_aborted || header.kind == Kind::Commit {
            flags |= TRANSACTION_ENDED;
        }
        let mut position = CommitPosition::NONE;
        if let Some(txn) = self.txn.take() {
            position = txn.seen();
            if error.ends_transaction() || error.ends_session() {
                txn.rollback();
                self.context.unshare();
                self.is_aborted = true;
                flags |= TRANSACTION_ENDED;
            } else {
                self.txn = Some(txn);
            }
        }
        let is_unknown = matches!(error, Error::Kv(kv::Error::UnknownOutcome(_)));
        let ends = error.ends_session() || is_unknown;
        if ends {
            flags |= CONNECTION_ENDS;
        }
        let out = sink.buf();
        let at = frame::begin(out, Kind::Error, header.request);
        out.push(flags);
        put_error(out, &error);
        frame::finish(out, at, LAST);
        RequestOutcome {
            position,
            then: if ends {
                NextAction::Close
            } else {
                NextAction::Continue
            },
        }
    }

    fn execute(
        &mut self,
        shared: &ListenerState,
        header: Header,
        body: &[u8],
        sink: &mut dyn Sink,
    ) -> Result<CommitPosition, Failure> {
        self.context.charge_request(body.len())?;
        if self.is_aborted && matches!(header.kind, Kind::Batch | Kind::Scan) {
            let text =
                "An earlier request has rolled the transaction back; try restarting transaction";
            return Err(Error::refused(1213, "40001", text).into());
        }
        match header.kind {
            Kind::Batch => self.batch(header.request, Batch::parse(body)?, sink),
            Kind::Scan => self.scan(header.request, body, sink),
            Kind::Subscribe => {
                self.subscribe(shared, header.request, &Subscribe::parse(body)?, sink)
            }
            Kind::NextChanges => {
                let wait = Duration::from_millis(u64::from(parse_wait(body)?));
                self.next_changes(header.request, wait, sink)
            }
            Kind::OpenTable => {
                let request = OpenTable::parse(body)?;
                let (table, _) = self.describe(shared, &request)?;
                let out = sink.buf();
                let at = frame::begin(out, Kind::Table, header.request);
                table.put(out);
                frame::finish(out, at, LAST);
                Ok(CommitPosition::NONE)
            }
            Kind::Ping => self.done(CommitPosition::NONE, header.request, sink),
            Kind::Begin => {
                let isolation = Isolation::parse(body)?;
                self.begin(isolation)?;
                self.done(CommitPosition::NONE, header.request, sink)
            }
            Kind::Commit => {
                let position = self.commit()?;
                self.done(position, header.request, sink)
            }
            Kind::Rollback => {
                if let Some(txn) = self.txn.take() {
                    txn.rollback();
                }
                self.is_aborted = false;
                self.context.unshare();
                self.done(CommitPosition::NONE, header.request, sink)
            }
            _ => Err(Malformed("request: clients do not send this kind").into()),
        }
    }

    fn done(
        &self,
        position: CommitPosition,
        request: u32,
        sink: &mut dyn Sink,
    ) -> Result<CommitPosition, Failure> {
        frame::put(sink.buf(), Kind::Done, request, LAST, &[]);
        Ok(position)
    }

    fn begin(&mut self, isolation: Isolation) -> Result<(), Failure> {
        if self.txn.is_some() {
            let text = "A transaction is already open";
            return Err(Error::refused(1568, "25001", text).into());
        }
        self.context.begin_request(0);
        let isolation = match isolation {
            Isolation::Snapshot => kv::Isolation::Snapshot,
            Isolation::Serializable => kv::Isolation::Serializable,
        };
        self.txn = Some(self.context.begin_open(isolation)?);
        self.is_aborted = false;
        Ok(())
    }

    fn commit(&mut self) -> Result<CommitPosition, Failure> {
        self.is_aborted = false;
        let Some(txn) = self.txn.take() else {
            return Err(Error::refused(1399, "XAE07", "No transaction is open").into());
        };
        self.monitor.begin("Query", b"COMMIT");
        self.context.begin_request(0);
        Ok(self.context.commit(txn)?)
    }

    /// Database and name of the tables on which the account has a privilege, without system schemas.
    pub(crate) fn tables(&mut self, shared: &ListenerState) -> Vec<(String, String)> {
        let catalog = shared.db.catalog();
        let rights = self.identity.rights().0.clone();
        let tables = catalog.databases.values().flat_map(|database| {
            let names = database.tables.keys();
            names.map(|name| (database.name.clone(), name.clone()))
        });
        let is_visible = |(database, table): &(String, String)| {
            !is_system_schema(database) && rights.sees_table(database, table)
        };
        tables.filter(is_visible).collect()
    }

    /// Executes a batch without frames around it: its answer is only complete results.
    pub(crate) fn run_batch(
        &mut self,
        body: &[u8],
        max_parts: u16,
        sink: &mut dyn Sink,
    ) -> Result<CommitPosition, Error> {
        let cancel = self.context.cancel.clone();
        let _scope = Scope::enter(&cancel);
        let charged = self.context.charge_request(body.len());
        let batch = Batch::parse_with(body, max_parts).map_err(Failure::from);
        let done = charged.and(batch);
        let done = done.and_then(|batch| self.batch(0, batch, sink));
        self.monitor.end();
        self.context.release_memory();
        done.map_err(|failure| match failure {
            Failure::Rows(error) | Failure::AfterFrames(error) => error,
            Failure::Operation | Failure::Gone => Error::DefinitionChanged,
        })
    }

    /// Describes a table on which the account has any privilege.
    pub(crate) fn describe(
        &mut self,
        shared: &ListenerState,
        request: &OpenTable<'_>,
    ) -> Result<(message::Table, Arc<Table>), Error> {
        let catalog = shared.db.catalog();
        let (database, name) = (request.database, request.table);
        let rights = self.identity.rights().0.clone();
        if !rights.sees_table(database, name) {
            let shown = self.identity.shown();
            let text = format!("SELECT command denied to user {shown} for table '{name}'");
            return Err(Error::refused(1142, "42000", text));
        }
        let table = catalog
            .table(database, name)
            .ok_or_else(|| Error::NoSuchTable {
                database: database.to_owned(),
                table: name.to_owned(),
            })?;
        Ok((schema::describe(table, &rights), table.clone()))
    }

    fn batch(
        &mut self,
        request: u32,
        batch: Batch<'_>,
        sink: &mut dyn Sink,
    ) -> Result<CommitPosition, Failure> {
        counters::add(Counter::Batches, 1);
        self.context.begin_request(batch.time_limit);
        let mut executor = Executor {
            context: &mut self.context,
            identity: &mut self.identity,
            plans: &mut self.plans,
        };
        // A batch that fails as a whole counts as one failed operation of its first part.
        let mut statistics = None;
        if let Some(first) = batch.parts().next() {
            let db = executor.context.db.clone();
            let plan = executor.plans.find(&db, executor.identity, first.shape)?;
            self.monitor.begin("Execute", &plan.info);
            statistics = plan.statistics.clone();
        }
        let done = match &mut self.txn {
            None => executor.run(request, &batch, sink),
            Some(txn) => executor
                .run_in(txn, request, &batch, sink)
                .map(|()| txn.seen()),
        };
        if let (Err(_), Some(statistics)) = (&done, statistics) {
            statistics.count(Effects {
                operations: 1,
                errors: 1,
                ..Effects::default()
            });
        }
        done
    }

    /// Begins a subscription, in place of the one that the connection has.
    fn subscribe(
        &mut self,
        shared: &ListenerState,
        request: u32,
        subscribe: &Subscribe<'_>,
        sink: &mut dyn Sink,
    ) -> Result<CommitPosition, Failure> {
        // Before the new one, so that it does not count against the limit of subscriptions.
        self.subscription = None;
        self.check_may_wait()?;
        self.context.begin_request(0);
        let log = shared.settings.changes.as_ref();
        let (context, identity) = (&self.context, &mut self.identity);
        let subscription =
            Subscription::open(context, identity, log, &shared.subscriptions, subscribe)?;
        self.subscription = Some(Box::new(subscription));
        self.next_changes(request, Duration::ZERO, sink)
    }

    /// Appends the next changes of the subscription. An error ends it.
    fn next_changes(
        &mut self,
        request: u32,
        wait: Duration,
        sink: &mut dyn Sink,
    ) -> Result<CommitPosition, Failure> {
        let Some(mut subscription) = self.subscription.take() else {
            let text = "There is no subscription";
            return Err(Error::refused(1381, "HY000", text).into());
        };
        self.check_may_wait()?;
        self.context.begin_request(0);
        let info = subscription.shown();
        self.monitor.begin("Execute", info.as_bytes());
        let (context, identity) = (&self.context, &mut self.identity);
        subscription.answer(context, identity, request, wait, sink.buf())?;
        self.subscription = Some(subscription);
        // The log has only transactions that are on disk.
        Ok(CommitPosition::NONE)
    }

    /// Fails if a transaction is open: its locks are not kept while changes are awaited.
    fn check_may_wait(&self) -> Result<(), Failure> {
        if self.txn.is_none() {
            return Ok(());
        }
        let text = "Can't execute the given command because you have active locked tables or an active transaction";
        Err(Error::refused(1192, "HY000", text).into())
    }

    fn scan(
        &mut self,
        request: u32,
        body: &[u8],
        sink: &mut dyn Sink,
    ) -> Result<CommitPosition, Failure> {
        let parsed = Scan::parse(body)?;
        self.context.begin_request(parsed.time_limit);
        self.monitor.begin("Execute", b"SCAN");
        let mut attempts = 0;
        loop {
            attempts += 1;
            let planned = scan::plan(&self.context, &mut self.identity, parsed.clone())?;
            let start = sink.buf().len();
            let done = match &mut self.txn {
                Some(txn) => {
                    self.context.pin(txn)?;
                    self.context.check_definition(txn, planned.table())?;
                    planned.answer(&self.context, txn, request, sink.buf())
                }
                None => {
                    // Several rows are read in a snapshot that has this connection's commits.
                    let (mut txn, _) = self.context.reader(2)?;
                    planned.answer(&self.context, &mut txn, request, sink.buf())
                }
            };
            match done {
                Err(Failure::Rows(error))
                    if self.txn.is_none() && is_retryable(&error) && attempts < MAX_ATTEMPTS =>
                {
                    sink.buf().truncate(start);
                }
                done => return done,
            }
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(txn) = self.txn.take() {
            txn.rollback();
        }
        self.context.unshare();
    }
}
