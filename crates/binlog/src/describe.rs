//! Events as SHOW BINLOG EVENTS prints them.

use crate::file::{inner_events, is_begin, without_checksums};
use porpoise_replication::event::rows::flags::STATEMENT_END;
use porpoise_replication::event::{Event, FormatDescription, Header, RowChangeKind};

/// A row of SHOW BINLOG EVENTS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRow {
    /// Name of the file.
    pub file: String,
    /// Position of the event.
    pub position: u64,
    /// Name of its type, as MySQL prints it.
    pub kind: &'static str,
    /// The server that ran it first.
    pub server_id: u32,
    /// Position after the event.
    pub end: u64,
    /// Description.
    pub info: String,
}

/// Describes an event of a file.
pub(crate) fn event(
    file: String,
    position: u64,
    bytes: &[u8],
    format: &FormatDescription,
) -> EventRow {
    let header = Header::parse(bytes).unwrap_or_default();
    let (kind, info) = match Event::decode(bytes, format) {
        Ok((_, event)) => describe(&event, format),
        Err(error) => ("Unknown", error.to_string()),
    };
    EventRow {
        file,
        position,
        kind,
        server_id: header.server_id,
        end: position + bytes.len() as u64,
        info,
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn describe(event: &Event, format: &FormatDescription) -> (&'static str, String) {
    match event {
        Event::FormatDescription(format) => (
            "Format_desc",
            format!("Server ver: {}, Binlog ver: 4", format.server_version),
        ),
        Event::PreviousGtids(previous) => ("Previous_gtids", previous.set.to_string()),
        Event::Gtid(gtid) => match gtid.gtid {
            Some(gtid) => ("Gtid", format!("SET @@SESSION.GTID_NEXT= '{gtid}'")),
            None => (
                "Anonymous_Gtid",
                "SET @@SESSION.GTID_NEXT= 'ANONYMOUS'".to_owned(),
            ),
        },
        Event::Query(query) if is_begin(&query.text) || query.database.is_empty() => {
            ("Query", text(&query.text))
        }
        Event::Query(query) => {
            let database = text(&query.database).replace('`', "``");
            ("Query", format!("use `{database}`; {}", text(&query.text)))
        }
        Event::Xid(commit) => ("Xid", format!("COMMIT /* xid={commit} */")),
        Event::TableMap(map) => {
            let (database, table) = (text(&map.database), text(&map.table));
            (
                "Table_map",
                format!("table_id: {} ({database}.{table})", map.table_id),
            )
        }
        Event::Rows(rows) => {
            let kind = match rows.kind {
                RowChangeKind::Insert => "Write_rows",
                RowChangeKind::Update => "Update_rows",
                RowChangeKind::Delete => "Delete_rows",
            };
            let flags = if rows.flags & STATEMENT_END > 0 {
                " flags: STMT_END_F"
            } else {
                ""
            };
            (kind, format!("table_id: {}{flags}", rows.table_id))
        }
        Event::TransactionPayload(payload) => {
            let events = inner_events(payload).filter_map(|inner| {
                let (_, event) = Event::decode(inner, &without_checksums(format)).ok()?;
                Some(describe(&event, format).0)
            });
            let events: Vec<&str> = events.collect();
            let info = format!("compression='ZSTD', events: {}", events.join(", "));
            ("Transaction_payload", info)
        }
        Event::Rotate(rotate) => (
            "Rotate",
            format!("{};pos={}", text(&rotate.file), rotate.position),
        ),
        Event::Stop => ("Stop", String::new()),
        Event::Heartbeat(_) => ("Heartbeat", String::new()),
        _ => ("Unknown", String::new()),
    }
}
