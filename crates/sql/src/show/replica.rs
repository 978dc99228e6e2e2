//! SHOW REPLICA STATUS, and SHOW SLAVE STATUS with the names of columns before MySQL 8.0.22.

use crate::context::StatementContext;
use crate::replica::{ReplicaFailure, ReplicaStatus};
use crate::results::table::{Rows, number_column, text, text_column};
use porpoise_types::{DateTime, Value};

/// Kind of a column.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Number,
}

/// A column and its value.
type Cell = (&'static str, Kind, Value);

/// The row, or no row without a source.
pub(crate) fn status(cx: &StatementContext, old_names: bool) -> Rows {
    let status = cx.server.replica_status();
    let columns = cells(cx, &status.clone().unwrap_or_default());
    let column = |(name, kind, _): &Cell| {
        let name = if old_names {
            name.replace("Replica", "Slave").replace("Source", "Master")
        } else {
            (*name).to_owned()
        };
        match kind {
            Kind::Text => text_column(&name, 1024),
            Kind::Number => number_column(&name),
        }
    };
    let mut rows = Rows::new(columns.iter().map(column).collect());
    if status.is_some() {
        rows.push(columns.into_iter().map(|(_, _, value)| value).collect());
    }
    rows
}

fn cells(cx: &StatementContext, status: &ReplicaStatus) -> Vec<Cell> {
    let mut cells = position_cells(status);
    cells.extend(error_cells(cx, status));
    cells
}

fn string(name: &'static str, value: &str) -> Cell {
    (name, Kind::Text, text(value))
}

fn number(name: &'static str, value: u64) -> Cell {
    (name, Kind::Number, Value::UInt(value))
}

fn yes(is_on: bool) -> &'static str {
    if is_on { "Yes" } else { "No" }
}

fn position_cells(status: &ReplicaStatus) -> Vec<Cell> {
    let [
        do_db,
        ignore_db,
        do_table,
        ignore_table,
        wild_do,
        wild_ignore,
        _,
    ] = &status.filters;
    let until = status.until.as_ref();
    vec![
        string("Replica_IO_State", status.activity),
        string("Source_Host", &status.host),
        string("Source_User", &status.user),
        number("Source_Port", u64::from(status.port)),
        number("Connect_Retry", status.connect_retry),
        string("Source_Log_File", &status.read.0),
        number("Read_Source_Log_Pos", status.read.1),
        string("Relay_Log_File", ""),
        number("Relay_Log_Pos", 0),
        string("Relay_Source_Log_File", &status.applied.0),
        string("Replica_IO_Running", status.receiving),
        string("Replica_SQL_Running", status.applying),
        string("Replicate_Do_DB", do_db),
        string("Replicate_Ignore_DB", ignore_db),
        string("Replicate_Do_Table", do_table),
        string("Replicate_Ignore_Table", ignore_table),
        string("Replicate_Wild_Do_Table", wild_do),
        string("Replicate_Wild_Ignore_Table", wild_ignore),
        number("Last_Errno", u64::from(status.apply_error.number)),
        string("Last_Error", &status.apply_error.message),
        number("Skip_Counter", status.to_skip),
        number("Exec_Source_Log_Pos", status.applied.1),
        number("Relay_Log_Space", 0),
        string(
            "Until_Condition",
            if until.is_some() { "Source" } else { "None" },
        ),
        string("Until_Log_File", until.map_or("", |until| until.0.as_str())),
        number("Until_Log_Pos", until.map_or(0, |until| until.1)),
        string("Source_SSL_Allowed", yes(status.ssl)),
        string("Source_SSL_CA_File", &status.ssl_ca),
        string("Source_SSL_CA_Path", ""),
        string("Source_SSL_Cert", &status.ssl_cert),
        string("Source_SSL_Cipher", ""),
        string("Source_SSL_Key", &status.ssl_key),
    ]
}

/// `yymmdd hh:mm:ss`, as MySQL prints these times; empty without an error.
fn time_of(cx: &StatementContext, failure: &ReplicaFailure) -> String {
    let at = DateTime::from_unix_micros(failure.time).filter(|_| failure.number != 0);
    at.map_or(String::new(), |utc| {
        let at = cx.env.time_zone.utc_to_local(utc);
        format!(
            "{:02}{:02}{:02} {:02}:{:02}:{:02}",
            at.year() % 100,
            at.month(),
            at.day(),
            at.hour(),
            at.minute(),
            at.second()
        )
    })
}

fn error_cells(cx: &StatementContext, status: &ReplicaStatus) -> Vec<Cell> {
    let behind = status.seconds_behind.map_or(Value::Null, Value::UInt);
    let (io, sql) = (&status.connection_error, &status.apply_error);
    vec![
        ("Seconds_Behind_Source", Kind::Number, behind),
        string("Source_SSL_Verify_Server_Cert", yes(status.ssl_verify)),
        number("Last_IO_Errno", u64::from(io.number)),
        string("Last_IO_Error", &io.message),
        number("Last_SQL_Errno", u64::from(sql.number)),
        string("Last_SQL_Error", &sql.message),
        string("Replicate_Ignore_Server_Ids", ""),
        number("Source_Server_Id", u64::from(status.source_id)),
        string("Source_UUID", &status.source_uuid),
        string("Source_Info_File", "mysql.replica_position"),
        number("SQL_Delay", status.delay),
        ("SQL_Remaining_Delay", Kind::Number, Value::Null),
        string("Replica_SQL_Running_State", status.activity),
        number("Source_Retry_Count", status.retry_count),
        string("Source_Bind", ""),
        string("Last_IO_Error_Timestamp", &time_of(cx, io)),
        string("Last_SQL_Error_Timestamp", &time_of(cx, sql)),
        string("Source_SSL_Crl", ""),
        string("Source_SSL_Crlpath", ""),
        string("Retrieved_Gtid_Set", ""),
        string("Executed_Gtid_Set", &status.gtids),
        number("Auto_Position", u64::from(status.auto_position)),
        string(
            "Replicate_Rewrite_DB",
            status.filters.last().map_or("", String::as_str),
        ),
        string("Channel_Name", ""),
        string("Source_TLS_Version", ""),
        string("Source_public_key_path", ""),
        number("Get_Source_public_key", 0),
        string("Network_Namespace", ""),
    ]
}
