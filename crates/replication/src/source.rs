//! A connection to a source, from which events are read.
//!
//! After the login the replica reads the source's identity, sets options of the stream (checksums, heartbeats,
//! with MariaDB that it knows its GTIDs), registers itself, and asks for the events from a position on. From then on
//! the source sends one packet for each event: a zero byte and the event.
//!
//! A source that has nothing to send sends a heartbeat in the period that was agreed upon. If nothing arrives for
//! several periods, the connection is lost.

use crate::epoch::{EPOCH_VARIABLE, INCARNATION_VARIABLE, MAX_EPOCH};
use crate::event::{DecodeError, Event, FormatDescription, Header};
use crate::gtid::GtidSet;
use crate::position::{Coordinates, GtidPosition};
use porpoise_client::mysql::{Connection, Target};
use porpoise_wire::mysql::client::result::{Event as ReplyEvent, Row, parse_error};
use std::time::{Duration, Instant};

/// Numbers of the commands.
const COM_BINLOG_DUMP: u8 = 0x12;
const COM_REGISTER_SLAVE: u8 = 0x15;
const COM_BINLOG_DUMP_GTID: u8 = 0x1E;

/// Flag of COM_BINLOG_DUMP_GTID: the body has a set.
const THROUGH_GTID: u16 = 4;

/// First byte of semi-synchronous headers and acknowledgements.
const SEMI_SYNC: u8 = 0xEF;

/// First position of a file.
pub const FIRST_POSITION: u64 = 4;

/// Failure of a source, or of the connection to it.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The connection or the login failed, or the source refuses a request. Trying again may help.
    #[error("{0}")]
    Connection(#[from] porpoise_client::Error),
    /// An event cannot be read.
    #[error("{0}")]
    Event(#[from] DecodeError),
    /// The source cannot be followed as it is configured.
    #[error("{0}")]
    Unsuitable(String),
    /// The source's epoch is over: another server has taken over from it.
    #[error(
        "the source has epoch {theirs}, this server knows of epoch {ours}: another server has taken over from the source; the source now refuses writes"
    )]
    Outdated {
        /// The source's epoch.
        theirs: u64,
        /// The greatest one that this server knows of.
        ours: u64,
    },
    /// The source, which began this epoch, lacks transactions of this server.
    #[error(
        "this server has transactions that the source lacks: {extra}. They were not on the source when it took over. Look at them with \
         SHOW BINLOG EVENTS, repeat the wanted ones on the source, then follow it from an empty data directory"
    )]
    Diverged {
        /// The source's epoch.
        epoch: u64,
        /// The transactions.
        extra: GtidSet,
    },
    /// Nothing arrived, no heartbeat either.
    #[error("no event and no heartbeat for {0:?}")]
    Silent(Duration),
}

impl SourceError {
    /// MySQL's error number: that of the server, 2003 or 2013 of the connection, 1236 or 1593 of the source.
    #[must_use]
    pub fn number(&self) -> u16 {
        match self {
            SourceError::Connection(porpoise_client::Error::Server(error)) => error.code,
            SourceError::Connection(porpoise_client::Error::Connect { .. }) => 2003,
            SourceError::Connection(_) | SourceError::Silent(_) => 2013,
            SourceError::Event(_) => 1236,
            SourceError::Unsuitable(_)
            | SourceError::Outdated { .. }
            | SourceError::Diverged { .. } => 1593,
        }
    }

    /// Whether connecting again may help.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            // 1236: the source has no such position any more, or cannot read its log. 1045 and others of the login
            // may be repaired at the source, as MySQL's replicas hope too.
            SourceError::Connection(porpoise_client::Error::Server(error)) => error.code != 1236,
            SourceError::Connection(_) | SourceError::Silent(_) => true,
            SourceError::Event(_)
            | SourceError::Unsuitable(_)
            | SourceError::Outdated { .. }
            | SourceError::Diverged { .. } => false,
        }
    }
}

/// The reason for which a server cannot follow a source with the data that it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Divergence {
    /// The source lacks these transactions.
    Extra(GtidSet),
    /// The source's log begins after the transactions that this server has; the source's message.
    Refused(String),
}

impl Divergence {
    /// The divergence that an error reports; `None` if the error is transient or has another cause.
    #[must_use]
    pub fn of(error: &SourceError) -> Option<Divergence> {
        match error {
            SourceError::Diverged { extra, .. } => Some(Divergence::Extra(extra.clone())),
            SourceError::Connection(porpoise_client::Error::Server(error))
                if error.code == 1236 =>
            {
                Some(Divergence::Refused(error.message.clone()))
            }
            _ => None,
        }
    }
}

/// Options of the request for a source's events.
#[derive(Clone, Debug)]
pub struct SourceOptions {
    /// Address, account and TLS.
    pub target: Target,
    /// This server's id.
    pub server_id: u32,
    /// This server's port, for the source's list of replicas.
    pub port: u16,
    /// Period of heartbeats.
    pub heartbeat: Duration,
    /// Whether the replica acknowledges transactions, if the source knows semi-synchronous replication.
    pub semi_sync: bool,
    /// The greatest epoch that this server knows of.
    pub epoch: u64,
    /// Number of this server's data, if it is a member of a group.
    pub incarnation: Option<u64>,
}

/// Kind and identity of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceIdentity {
    /// Version.
    pub version: String,
    /// Id.
    pub server_id: u32,
    /// UUID; empty of MariaDB.
    pub uuid: String,
}

impl SourceIdentity {
    /// Whether the source is MariaDB.
    #[must_use]
    pub fn is_mariadb(&self) -> bool {
        self.version.contains("MariaDB")
    }
}

/// A source that sends events.
#[derive(Debug)]
pub struct SourceStream {
    connection: Connection,
    identity: SourceIdentity,
    format: FormatDescription,
    packet: Vec<u8>,
    /// Longest silence.
    patience: Duration,
    heard: Instant,
    /// Whether events have semi-synchronous headers.
    is_semi_sync: bool,
    /// Whether the source waits for the acknowledgement of the last event.
    is_ack_requested: bool,
    epoch: u64,
}

/// Wait of [`SourceStream::next_event`], after which the caller checks whether it is to stop.
const POLL: Duration = Duration::from_millis(200);

impl SourceStream {
    /// Connects, and asks for the events from a position on. `gtids` takes precedence over `coordinates`.
    ///
    /// # Errors
    /// The connection's; the source is not suitable: [`SourceError::Unsuitable`].
    pub fn open(
        options: &SourceOptions,
        coordinates: &Coordinates,
        gtids: Option<&GtidPosition>,
    ) -> Result<SourceStream, SourceError> {
        let mut target = options.target.clone();
        target.read_timeout = Some(options.target.connect_timeout);
        let mut connection = Connection::connect(&target)?;
        let identity = identify(&mut connection, options)?;
        let has_checksums = prepare(&mut connection, options, &identity)?;
        let epoch = exchange_epochs(&mut connection, options.epoch)?;
        if let Some(incarnation) = options.incarnation {
            connection.execute(&format!("SET @{INCARNATION_VARIABLE} = {incarnation}"))?;
        }
        if let (Some(epoch @ 1..), Some(gtids), false) = (epoch, gtids, identity.is_mariadb()) {
            compare_transactions(&mut connection, epoch, &gtids.mysql)?;
        }
        let is_semi_sync = options.semi_sync && offer_acknowledgement(&mut connection)?;
        register(&mut connection, options)?;
        let format = FormatDescription::new(&identity.version, 0, has_checksums);
        request(&mut connection, options, &identity, coordinates, gtids)?;
        if let Some(theirs) = epoch.filter(|theirs| *theirs < options.epoch) {
            // The answer is an error: the source has read the greater epoch.
            let mut answer = Vec::new();
            let _ = connection.receive(&mut answer);
            return Err(SourceError::Outdated {
                theirs,
                ours: options.epoch,
            });
        }
        connection.set_read_timeout(Some(POLL))?;
        Ok(SourceStream {
            connection,
            identity,
            format,
            packet: Vec::new(),
            patience: options.heartbeat * 3 + Duration::from_secs(5),
            heard: Instant::now(),
            is_semi_sync,
            is_ack_requested: false,
            epoch: epoch.unwrap_or(0),
        })
    }

    /// The source's epoch; 0 of a server that has none.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether the source receives acknowledgements.
    #[must_use]
    pub fn is_semi_sync(&self) -> bool {
        self.is_semi_sync
    }

    /// Whether the source waits for the acknowledgement of the last event.
    #[must_use]
    pub fn is_ack_requested(&self) -> bool {
        self.is_ack_requested
    }

    /// Acknowledges everything up to a place: it is on the replica's disk.
    ///
    /// # Errors
    /// The connection's.
    pub fn acknowledge(&mut self, place: &Coordinates) -> Result<(), SourceError> {
        self.is_ack_requested = false;
        let mut packet = vec![SEMI_SYNC];
        packet.extend(place.position.to_le_bytes());
        packet.extend(place.file.as_bytes());
        Ok(self.connection.send_packet(&packet)?)
    }

    /// Whether events have arrived that were not read.
    pub fn has_input(&mut self) -> bool {
        self.connection.has_input()
    }

    /// Kind and identity of the source.
    #[must_use]
    pub fn identity(&self) -> &SourceIdentity {
        &self.identity
    }

    /// Waits for the next event; `None` after a short time in which none arrived.
    ///
    /// # Errors
    /// The connection's; the source has ended the stream; the event cannot be read.
    pub fn next_event(&mut self) -> Result<Option<(Header, Event)>, SourceError> {
        match self.connection.receive(&mut self.packet) {
            Ok(()) => {}
            Err(error) if error.is_timeout() => {
                let silence = self.heard.elapsed();
                return if silence > self.patience {
                    Err(SourceError::Silent(silence))
                } else {
                    Ok(None)
                };
            }
            Err(error) => return Err(error.into()),
        }
        self.heard = Instant::now();
        if let Some(error) = parse_error(&self.packet) {
            return Err(porpoise_client::Error::Server(error).into());
        }
        self.is_ack_requested = false;
        let bytes = match self.packet.split_first() {
            Some((0, bytes)) if self.is_semi_sync => {
                let Some((&[SEMI_SYNC, request], bytes)) = bytes.split_first_chunk::<2>() else {
                    let what = "an event without a semi-synchronous header";
                    return Err(porpoise_client::Error::Protocol(what).into());
                };
                if request == 1 {
                    self.is_ack_requested = true;
                    self.connection.expect_sequence(1);
                }
                bytes
            }
            Some((0, bytes)) => bytes,
            Some((0xFE, _)) => {
                let what = "the source has ended the stream";
                return Err(porpoise_client::Error::Protocol(what).into());
            }
            _ => return Err(porpoise_client::Error::Protocol("no event").into()),
        };
        let (header, event) = Event::decode(bytes, &self.format)?;
        if let Event::FormatDescription(format) = &event {
            self.format = format.clone();
        }
        Ok(Some((header, event)))
    }

    /// The format of the present file, for events inside of others.
    #[must_use]
    pub fn format(&self) -> &FormatDescription {
        &self.format
    }
}

/// The texts of the first row of a result.
fn row(
    connection: &mut Connection,
    statement: &str,
) -> Result<Vec<Option<String>>, porpoise_client::Error> {
    let (mut first, mut failure) = (None, None);
    connection.query(statement.as_bytes(), |event| {
        match event {
            ReplyEvent::Error(error) => failure = Some(error),
            ReplyEvent::Row(Row::Text(row)) if first.is_none() => {
                let text = |cell: Option<&[u8]>| {
                    cell.map(|cell| String::from_utf8_lossy(cell).into_owned())
                };
                first = Some(row.map(text).collect());
            }
            _ => {}
        }
        Ok::<(), porpoise_client::Error>(())
    })?;
    match failure {
        Some(error) => Err(porpoise_client::Error::Server(error)),
        None => Ok(first.unwrap_or_default()),
    }
}

fn texts<const N: usize>(
    connection: &mut Connection,
    statement: &str,
) -> Result<[String; N], porpoise_client::Error> {
    let mut cells = row(connection, statement)?.into_iter();
    Ok(std::array::from_fn(|_| {
        cells.next().flatten().unwrap_or_default()
    }))
}

/// Asks what the source is, and whether it can be followed.
fn identify(
    connection: &mut Connection,
    options: &SourceOptions,
) -> Result<SourceIdentity, SourceError> {
    let [version, server_id, log, format] = texts(
        connection,
        "SELECT @@version, @@server_id, @@log_bin, @@binlog_format",
    )?;
    let mut identity = SourceIdentity {
        version,
        server_id: server_id.parse().unwrap_or(0),
        uuid: String::new(),
    };
    let refuse = |what: String| Err(SourceError::Unsuitable(what));
    if log != "1" {
        return refuse("the source has no binary log: start it with log_bin".into());
    }
    if identity.server_id == options.server_id {
        return refuse(format!(
            "source and replica have the same server_id {}: each needs its own",
            options.server_id
        ));
    }
    if format != "ROW" {
        return refuse(format!(
            "the source has binlog_format = {format}: set binlog_format = ROW there, so that its log contains the rows"
        ));
    }
    if !identity.is_mariadb() {
        let [uuid] = texts(connection, "SELECT @@server_uuid")?;
        identity.uuid = uuid;
    }
    Ok(identity)
}

/// Sets the session variables that tell the source how to send events. Returns whether they have checksums.
fn prepare(
    connection: &mut Connection,
    options: &SourceOptions,
    identity: &SourceIdentity,
) -> Result<bool, SourceError> {
    let [algorithm] = texts(connection, "SELECT @@global.binlog_checksum")?;
    let period = options.heartbeat.as_nanos();
    // MySQL has the old names until 8.0.25, the new ones afterwards.
    let names: &[&str] = if identity.is_mariadb() {
        &["master"]
    } else {
        &["master", "source"]
    };
    for name in names {
        connection.execute(&format!(
            "SET @{name}_heartbeat_period = {period}, @{name}_binlog_checksum = @@global.binlog_checksum"
        ))?;
    }
    if identity.is_mariadb() {
        // 4: the replica knows GTID events.
        connection.execute("SET @mariadb_slave_capability = 4")?;
    }
    Ok(algorithm.eq_ignore_ascii_case("CRC32"))
}

/// Reads the source's epoch, and announces the replica's. `None` if the source has none.
fn exchange_epochs(connection: &mut Connection, own: u64) -> Result<Option<u64>, SourceError> {
    let [_, epoch] = texts(
        connection,
        &format!("SHOW VARIABLES LIKE '{EPOCH_VARIABLE}'"),
    )?;
    let Ok(epoch) = epoch.parse::<u64>() else {
        return Ok(None);
    };
    connection.execute(&format!("SET @{EPOCH_VARIABLE} = {own}"))?;
    Ok(Some(epoch.min(MAX_EPOCH)))
}

/// Refuses to follow a source that lacks transactions of this server: they were not acknowledged when the source took
/// over.
fn compare_transactions(
    connection: &mut Connection,
    epoch: u64,
    own: &GtidSet,
) -> Result<(), SourceError> {
    // Not by SELECT, which waits for commits that may be waiting for this replica.
    let [_, theirs] = texts(connection, "SHOW GLOBAL VARIABLES LIKE 'gtid_executed'")?;
    let theirs = GtidSet::parse(&theirs)
        .map_err(|error| SourceError::Unsuitable(format!("the source's gtid_executed: {error}")))?;
    let extra = own.subtract(&theirs);
    if extra.is_empty() {
        Ok(())
    } else {
        Err(SourceError::Diverged { epoch, extra })
    }
}

/// Announces to the source that the replica acknowledges. Returns false if the source does not support semi-synchronous
/// replication.
fn offer_acknowledgement(connection: &mut Connection) -> Result<bool, SourceError> {
    for name in [
        "rpl_semi_sync_source_enabled",
        "rpl_semi_sync_master_enabled",
    ] {
        let [found, _] = texts(connection, &format!("SHOW VARIABLES LIKE '{name}'"))?;
        if !found.is_empty() {
            connection.execute("SET @rpl_semi_sync_replica = 1, @rpl_semi_sync_slave = 1")?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// The reply to a command that returns OK or an error.
fn expect_ok(connection: &mut Connection) -> Result<(), SourceError> {
    let mut reply = Vec::new();
    connection.receive(&mut reply)?;
    match parse_error(&reply) {
        Some(error) => Err(porpoise_client::Error::Server(error).into()),
        None => Ok(()),
    }
}

fn register(connection: &mut Connection, options: &SourceOptions) -> Result<(), SourceError> {
    let mut body = options.server_id.to_le_bytes().to_vec();
    // Host, user and password, which would only be shown.
    body.extend([0, 0, 0]);
    body.extend(options.port.to_le_bytes());
    // Rank and the source's id.
    body.extend([0; 8]);
    connection.send_command(COM_REGISTER_SLAVE, &body)?;
    expect_ok(connection)
}

fn request(
    connection: &mut Connection,
    options: &SourceOptions,
    identity: &SourceIdentity,
    coordinates: &Coordinates,
    gtids: Option<&GtidPosition>,
) -> Result<(), SourceError> {
    match gtids {
        Some(position) if identity.is_mariadb() => {
            connection.execute(&format!(
                "SET @slave_connect_state = '{}', @slave_gtid_strict_mode = 0, \
                 @slave_gtid_ignore_duplicates = 0",
                position.mariadb
            ))?;
            dump(connection, options, &Coordinates::default())
        }
        Some(position) => {
            let mut set = Vec::new();
            position.mysql.append_bytes(&mut set);
            let mut body = THROUGH_GTID.to_le_bytes().to_vec();
            body.extend(options.server_id.to_le_bytes());
            body.extend(0u32.to_le_bytes());
            body.extend(FIRST_POSITION.to_le_bytes());
            body.extend((set.len() as u32).to_le_bytes());
            body.extend(set);
            Ok(connection.send_command(COM_BINLOG_DUMP_GTID, &body)?)
        }
        None => dump(connection, options, coordinates),
    }
}

/// COM_BINLOG_DUMP: an empty name stands for the first file that the source has.
fn dump(
    connection: &mut Connection,
    options: &SourceOptions,
    coordinates: &Coordinates,
) -> Result<(), SourceError> {
    let position = coordinates.position.max(FIRST_POSITION);
    let Ok(position) = u32::try_from(position) else {
        let what = format!("position {position} of {} is above 4 GiB", coordinates.file);
        return Err(SourceError::Unsuitable(what));
    };
    let mut body = position.to_le_bytes().to_vec();
    body.extend(0u16.to_le_bytes());
    body.extend(options.server_id.to_le_bytes());
    body.extend(coordinates.file.as_bytes());
    Ok(connection.send_command(COM_BINLOG_DUMP, &body)?)
}
