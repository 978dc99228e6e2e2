//! CHANGE REPLICATION SOURCE TO, CHANGE REPLICATION FILTER, START REPLICA, STOP REPLICA, RESET REPLICA (manual, "SQL
//! Statements for Controlling Replicas"), also with the older words of MySQL and MariaDB.
//!
//! A replica has one thread: what MySQL calls the I/O and the SQL thread start and stop together.

use super::SqlSession;
use crate::replica::{FilterItem as Item, FilterKind, SourceChange};
use crate::results::Outcome;
use crate::vars::{self, VarValue};
use porpoise_base::blocking::blocking;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{
    FilterItem, FilterRule, ReplicaStatement, SourceOption, SourceValue,
};

/// Variables with the number of transactions to skip, by their old and new name.
const SKIP_COUNTERS: [&str; 2] = ["sql_slave_skip_counter", "sql_replica_skip_counter"];

impl SqlSession {
    /// Executes a statement of a replica. They commit the open transaction, as MySQL's do.
    pub(super) fn replica_statement(
        &mut self,
        statement: &ReplicaStatement<'_>,
    ) -> Result<Outcome> {
        let position = self.commit_implicitly()?;
        let control = self.cx.server.replica()?;
        match statement {
            ReplicaStatement::ChangeSource(options) => {
                let mut change = SourceChange::default();
                for option in *options {
                    apply_option(&mut change, option)?;
                }
                blocking(|| control.change_source(change))?;
            }
            ReplicaStatement::ChangeFilter(rules) => {
                let rules = rules.iter().map(filter_rule).collect::<Result<Vec<_>>>()?;
                blocking(|| control.change_filters(rules))?;
            }
            ReplicaStatement::Start { until, .. } => {
                let until = until_position(until)?;
                let skip = self.take_skip_counter()?;
                if !blocking(|| control.start(skip, until))? {
                    let text = "Replication thread(s) for channel '' are already running.";
                    self.cx.note(3083, text.to_owned());
                }
            }
            ReplicaStatement::Stop(_) => {
                if !blocking(|| control.stop())? {
                    let text = "Replication thread(s) for channel '' are already stopped.";
                    self.cx.note(3084, text.to_owned());
                }
            }
            ReplicaStatement::Reset { all } => blocking(|| control.reset(*all))?,
        }
        Ok(Outcome {
            position,
            ..Outcome::default()
        })
    }

    /// Reads the number of transactions to skip, and sets it to 0.
    fn take_skip_counter(&self) -> Result<u64> {
        let mut skip = 0;
        for name in SKIP_COUNTERS {
            skip += u64::from(self.cx.server.number(name));
            let (at, _) = vars::entry(name)?;
            self.cx.server.globals.write().set(at, VarValue::Int(0));
        }
        Ok(skip)
    }
}

/// Error 1231: the value of an option is wrong.
fn wrong_value(option: &SourceOption<'_>) -> SqlError {
    let text = format!("The value of option {} is wrong", option.name.name);
    SqlError::new(1231, "42000", text)
}

fn text_of(option: &SourceOption<'_>) -> Result<String> {
    match option.value {
        SourceValue::Text(text) => {
            String::from_utf8(text.to_vec()).map_err(|_| wrong_value(option))
        }
        _ => Err(wrong_value(option)),
    }
}

fn number_of(option: &SourceOption<'_>) -> Result<u64> {
    match option.value {
        SourceValue::Number(number) => number.parse().map_err(|_| wrong_value(option)),
        _ => Err(wrong_value(option)),
    }
}

/// File and position of START REPLICA UNTIL; both are needed.
fn until_position(options: &[SourceOption<'_>]) -> Result<Option<(String, u64)>> {
    let mut change = SourceChange::default();
    for option in options {
        let name = option.name.name.to_ascii_uppercase();
        if !matches!(
            name.as_str(),
            "SOURCE_LOG_FILE" | "MASTER_LOG_FILE" | "SOURCE_LOG_POS" | "MASTER_LOG_POS"
        ) {
            let text = format!("condition {} of START REPLICA UNTIL", option.name.name);
            return Err(SqlError::not_supported(&text));
        }
        apply_option(&mut change, option)?;
    }
    match (change.log_file, change.log_position) {
        (None, None) => Ok(None),
        (Some(file), Some(position)) if !file.is_empty() && position > 0 => {
            Ok(Some((file, position)))
        }
        _ => {
            let text = "Incorrect parameter or combination of parameters for START REPLICA UNTIL";
            Err(SqlError::new(1277, "HY000", text))
        }
    }
}

/// Seconds with a fraction, in milliseconds.
fn millis_of(option: &SourceOption<'_>) -> Result<u64> {
    let SourceValue::Number(number) = option.value else {
        return Err(wrong_value(option));
    };
    let seconds: f64 = number.parse().map_err(|_| wrong_value(option))?;
    // MySQL's limit of the period.
    if (0.0..=4_294_967.0).contains(&seconds) {
        Ok((seconds * 1000.0).round() as u64)
    } else {
        Err(wrong_value(option))
    }
}

/// Sets the change that an option requests. Names begin with SOURCE_ or MASTER_.
fn apply_option(change: &mut SourceChange, option: &SourceOption<'_>) -> Result<()> {
    let name = option.name.name.to_ascii_uppercase();
    let short = name
        .strip_prefix("SOURCE_")
        .or_else(|| name.strip_prefix("MASTER_"))
        .unwrap_or(&name);
    let text = || text_of(option).map(Some);
    let number = || number_of(option).map(Some);
    let switch = || number_of(option).map(|number| Some(number != 0));
    match short {
        "HOST" => change.host = text()?,
        "PORT" => {
            let port = u16::try_from(number_of(option)?).map_err(|_| wrong_value(option))?;
            change.port = Some(port);
        }
        "USER" => change.user = text()?,
        "PASSWORD" => change.password = text()?,
        "LOG_FILE" => change.log_file = text()?,
        "LOG_POS" => change.log_position = number()?,
        "AUTO_POSITION" => change.auto_position = switch()?,
        "USE_GTID" => change.auto_position = Some(uses_gtid(option)?),
        "GTID_EXECUTED" => change.gtids = text()?,
        "CONNECT_RETRY" => change.connect_retry = number()?,
        "RETRY_COUNT" => change.retry_count = number()?,
        "HEARTBEAT_PERIOD" => change.heartbeat_millis = Some(millis_of(option)?),
        "DELAY" => change.delay = number()?,
        "SSL" => change.ssl = switch()?,
        "SSL_VERIFY_SERVER_CERT" => change.ssl_verify = switch()?,
        "SSL_CA" => change.ssl_ca = text()?,
        "SSL_CERT" => change.ssl_cert = text()?,
        "SSL_KEY" => change.ssl_key = text()?,
        // The server's RSA key is requested whenever a password is sent without TLS.
        "PUBLIC_KEY_PATH" | "GET_SOURCE_PUBLIC_KEY" | "GET_MASTER_PUBLIC_KEY" => {}
        "IGNORE_SERVER_IDS" if option.value == SourceValue::Numbers(&[]) => {}
        _ => {
            let text = format!(
                "option {} of CHANGE REPLICATION SOURCE TO",
                option.name.name
            );
            return Err(SqlError::not_supported(&text));
        }
    }
    Ok(())
}

/// MariaDB's MASTER_USE_GTID.
fn uses_gtid(option: &SourceOption<'_>) -> Result<bool> {
    let SourceValue::Word(word) = option.value else {
        return Err(wrong_value(option));
    };
    match word.name.to_ascii_lowercase().as_str() {
        "slave_pos" | "replica_pos" | "current_pos" => Ok(true),
        "no" => Ok(false),
        _ => Err(wrong_value(option)),
    }
}

fn filter_rule(rule: &FilterRule<'_>) -> Result<(FilterKind, Vec<Item>)> {
    let kind = match rule.name.name.to_ascii_uppercase().as_str() {
        "REPLICATE_DO_DB" => FilterKind::DoDb,
        "REPLICATE_IGNORE_DB" => FilterKind::IgnoreDb,
        "REPLICATE_DO_TABLE" => FilterKind::DoTable,
        "REPLICATE_IGNORE_TABLE" => FilterKind::IgnoreTable,
        "REPLICATE_WILD_DO_TABLE" => FilterKind::WildDoTable,
        "REPLICATE_WILD_IGNORE_TABLE" => FilterKind::WildIgnoreTable,
        "REPLICATE_REWRITE_DB" => FilterKind::RewriteDb,
        other => {
            let text = format!("filter {other} of CHANGE REPLICATION FILTER");
            return Err(SqlError::not_supported(&text));
        }
    };
    let item = |item: &FilterItem<'_>| match (kind, item) {
        (FilterKind::DoDb | FilterKind::IgnoreDb, FilterItem::Database(name)) => {
            Ok((name.name.to_owned(), String::new()))
        }
        (FilterKind::DoTable | FilterKind::IgnoreTable, FilterItem::Table(database, table)) => {
            Ok((format!("{}.{}", database.name, table.name), String::new()))
        }
        (FilterKind::WildDoTable | FilterKind::WildIgnoreTable, FilterItem::Pattern(pattern)) => {
            Ok((String::from_utf8_lossy(pattern).into_owned(), String::new()))
        }
        (FilterKind::RewriteDb, FilterItem::Rewrite(from, to)) => {
            Ok((from.name.to_owned(), to.name.to_owned()))
        }
        _ => Err(SqlError::wrong_arguments("CHANGE REPLICATION FILTER")),
    };
    let items = rule.items.iter().map(item).collect::<Result<Vec<_>>>()?;
    Ok((kind, items))
}
