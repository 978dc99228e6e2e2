//! Commands of a logged-in session, and statements as text.
//!
//! Invariants:
//! 1. Several statements in one text run one after the other; the first error ends the reply. Each
//!    result but the last has the flag that another follows, and is deferred for its own commit
//!    position only.
//! 2. Commands that are equivalent to statements (process list, KILL) go through the parser as
//!    statements, and need the same privileges.

use super::Shared;
use super::answer::{Answer, client_gone, status_of};
use super::session::{Flow, LoggedIn};
use super::sink::{Form, WireSink, definition};
use super::statements::typed;
use porpoise_sql::status::Counter;
use porpoise_sql::{Outcome, ResultColumn, SqlError};
use porpoise_wire::mysql::command::Command;
use porpoise_wire::mysql::params::QueryAttributes;
use porpoise_wire::mysql::reply;
use porpoise_wire::mysql::{Status, column};

/// Returns the FLUSH statement that does what COM_REFRESH asks for. Old clients send the command
/// instead of the statement (`--flush-logs` of mariadb-dump). The flag for tables is not looked at:
/// FLUSH TABLES cannot be combined with other words, and is the statement for no flag.
fn flush_statement(flags: u8) -> String {
    const WORDS: [(u8, &str); 4] = [(1, "PRIVILEGES"), (2, "LOGS"), (8, "HOSTS"), (16, "STATUS")];
    let requested = WORDS.iter().filter(|(flag, _)| flags & flag != 0);
    let words: Vec<&str> = requested.map(|(_, word)| *word).collect();
    if words.is_empty() {
        "FLUSH TABLES".to_owned()
    } else {
        format!("FLUSH {}", words.join(", "))
    }
}

impl LoggedIn {
    /// Runs a command and appends its reply.
    pub(super) fn run(
        &mut self,
        shared: &Shared,
        command: Command<'_>,
        answer: &mut Answer<'_>,
    ) -> Flow {
        match command {
            Command::Query { text, attributes } => {
                self.query_with_attributes(text, attributes, answer)
            }
            Command::StmtExecute(execute) => self.execute(&execute, answer),
            Command::StmtPrepare(text) => self.prepare(text, answer),
            Command::StmtClose(id) => {
                self.sql.close_statement(id);
                self.statements.close(id);
                Flow::Continue
            }
            Command::StmtReset(id) => self.reset_statement(id, answer),
            Command::StmtFetch { id, rows } => {
                self.sql.count(Counter::StmtFetch, 1);
                self.fetch(id, rows, answer)
            }
            Command::StmtSendLongData { id, param, data } => {
                self.sql.count(Counter::StmtSendLongData, 1);
                self.statements
                    .add_long_data(id, param, data, self.max_packet);
                Flow::Continue
            }
            Command::Ping => {
                self.sql.count(Counter::AdminCommands, 1);
                self.ok(answer)
            }
            Command::Quit => {
                self.sql.count(Counter::AdminCommands, 1);
                Flow::Close
            }
            Command::InitDb(name) => {
                self.sql.count(Counter::ChangeDb, 1);
                self.init_db(name, answer)
            }
            Command::FieldList { table, wildcard } => self.field_list(table, wildcard, answer),
            Command::Statistics => {
                self.sql.count(Counter::ShowStatus, 1);
                let line = shared.sql.statistics_line();
                reply::write_statistics(answer.out.buf(), &mut answer.sequence, &line);
                Flow::Continue
            }
            Command::Refresh(flags) => self.query(flush_statement(flags).as_bytes(), answer),
            Command::Shutdown => self.query(b"SHUTDOWN", answer),
            Command::ProcessInfo => self.query(b"SHOW PROCESSLIST", answer),
            Command::ProcessKill(id) => {
                self.query(format!("KILL CONNECTION {id}").as_bytes(), answer)
            }
            Command::SetMultiStatements(on) => {
                self.allows_multiple_statements = on;
                answer.eof(status_of(&self.sql), 0);
                Flow::Continue
            }
            Command::ResetConnection => self.reset(answer),
            Command::BinlogDump(dump) => self.dump_binlog(shared, &dump, answer),
            Command::Clone(version) => self.clone_data(shared, version, answer),
            Command::RegisterReplica(replica) => self.register_replica(shared, &replica, answer),
            Command::Debug => self.reply_error(SqlError::not_supported("COM_DEBUG"), answer),
            // Handled by `MysqlSession`.
            Command::ChangeUser(_) => {
                self.reply_error(SqlError::internal("change of user"), answer)
            }
        }
    }

    fn ok(&mut self, answer: &mut Answer<'_>) -> Flow {
        let changes = self.sql.take_changes();
        answer.plain_ok(status_of(&self.sql), &changes);
        Flow::Continue
    }

    /// Ends the reply of a statement that succeeded.
    pub(super) fn finish(&mut self, outcome: &Outcome, status: Status, answer: &mut Answer<'_>) {
        let changes = if answer.can_carry_changes(outcome.had_rows) {
            self.sql.take_changes()
        } else {
            Vec::new()
        };
        answer.outcome(outcome, status, &changes);
    }

    /// Ends the reply with an error.
    pub(super) fn reply_error(&mut self, error: SqlError, answer: &mut Answer<'_>) -> Flow {
        answer.error(&error);
        if error.fatal {
            Flow::Close
        } else {
            Flow::Continue
        }
    }

    fn query_with_attributes(
        &mut self,
        text: &[u8],
        attributes: QueryAttributes<'_>,
        answer: &mut Answer<'_>,
    ) -> Flow {
        if attributes.is_empty() {
            return self.query(text, answer);
        }
        let text_as = self.sql.collation();
        let typed = attributes.map(|(name, p)| (name, typed(&p, text_as)));
        self.sql.set_query_attributes(typed);
        let flow = self.query(text, answer);
        self.sql.clear_query_attributes();
        flow
    }

    fn query(&mut self, text: &[u8], answer: &mut Answer<'_>) -> Flow {
        let mut text = text;
        loop {
            let before = status_of(&self.sql);
            let form = if self.sql.sends_checksums() {
                Form::Checksum
            } else {
                Form::Text
            };
            let sink = WireSink::new(answer, form, before);
            let mut sink = sink.definitions(self.sql.sends_metadata());
            let result = self
                .sql
                .query(text, self.allows_multiple_statements, &mut sink);
            if result.is_ok() {
                sink.end_checksum();
            }
            let result = if answer.file.is_some() {
                answer.skip_file(result)
            } else {
                result
            };
            let outcome = match result {
                Ok(outcome) => outcome,
                Err(error) => return self.reply_error(error, answer),
            };
            let rest = outcome.rest.and_then(|at| text.get(at..));
            let rest = rest.filter(|rest| !rest.is_empty());
            let more = rest.is_some() && !outcome.disconnect;
            let status = status_of(&self.sql).with(Status::MORE_RESULTS, more);
            self.finish(&outcome, status, answer);
            match rest {
                Some(rest) if more => text = rest,
                _ => return flow_after(&outcome),
            }
            if answer.out.is_full() && answer.drain().is_err() {
                return self.reply_error(client_gone(), answer);
            }
            answer.next_part();
        }
    }

    fn init_db(&mut self, name: &[u8], answer: &mut Answer<'_>) -> Flow {
        let name = String::from_utf8_lossy(name);
        if let Err(error) = self.sql.use_db(&name) {
            return self.reply_error(error, answer);
        }
        self.ok(answer)
    }

    fn field_list(&mut self, table: &[u8], wildcard: &[u8], answer: &mut Answer<'_>) -> Flow {
        let table = String::from_utf8_lossy(table);
        let columns = match self.sql.field_list(&table) {
            Ok(columns) => columns,
            Err(error) => return self.reply_error(error, answer),
        };
        let matches = |c: &&ResultColumn| wildcard.is_empty() || like(&c.name, wildcard);
        for c in columns.iter().filter(matches) {
            let (out, sequence) = (answer.out.buf(), &mut answer.sequence);
            column::write_listed_column(out, sequence, &definition(c), None, None);
        }
        answer.eof(status_of(&self.sql), 0);
        Flow::Continue
    }

    fn reset(&mut self, answer: &mut Answer<'_>) -> Flow {
        self.statements.clear();
        match self.sql.reset() {
            Ok(()) => self.ok(answer),
            Err(error) => self.reply_error(error, answer),
        }
    }
}

/// Effect of a successful statement on the connection.
pub(super) fn flow_after(outcome: &Outcome) -> Flow {
    if outcome.disconnect {
        Flow::Close
    } else {
        Flow::Continue
    }
}

/// Whether a column name matches a pattern of `%` and `_`, ignoring ASCII case.
fn like(name: &str, pattern: &[u8]) -> bool {
    let name = name.as_bytes();
    let (mut n, mut p) = (0, 0);
    // Position of the last `%`, and the end of the text that it has matched.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        let same = |a: u8, b: u8| a.eq_ignore_ascii_case(&b);
        match (pattern.get(p), name.get(n)) {
            (Some(b'%'), _) => {
                star = Some((p, n));
                p += 1;
            }
            (Some(&b), Some(&a)) if b == b'_' || same(a, b) => {
                n += 1;
                p += 1;
            }
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    p = at + 1;
                    n = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern
        .get(p..)
        .unwrap_or_default()
        .iter()
        .all(|b| *b == b'%')
}

#[cfg(test)]
mod tests {
    use super::like;

    #[test]
    fn patterns_of_column_names() {
        for (pattern, fits) in [
            ("user_id", true),
            ("USER%", true),
            ("%id", true),
            ("%e%_i%", true),
            ("user", false),
            ("_ser_i_", true),
            ("%x%", false),
            ("%", true),
        ] {
            assert_eq!(like("user_id", pattern.as_bytes()), fits, "{pattern}");
        }
    }
}
