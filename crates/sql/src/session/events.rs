//! CREATE, ALTER and DROP EVENT, and the execution of events.

use super::evaluate::converted;
use super::programs::Ran;
use super::routines::ProgramContext;
use super::{Outcome, SqlSession};
use crate::context::lex_mode;
use crate::event_schedule::amount_of;
use crate::programs::compile::{CompileCx, compile};
use crate::programs::frame::Frame;
use crate::programs::program::Program;
use bumpalo::Bump;
use porpoise_access::Privileges;
use porpoise_base::interrupt::Scope;
use porpoise_rows::catalog::{Event, EventSchedule, EventState};
use porpoise_sql_exec::exec::ResultSink;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_expr::expr::interval::interval;
use porpoise_sql_parser::ast::{
    Body, EventStatement, EventStatus, Expr, IntervalUnit, ProgramKind, Schedule, Statement,
    TableName, VariableKind,
};
use porpoise_sql_parser::{ParseOptions, parse_one, print};
use porpoise_sql_plan::bind::nodes::unit_of;
use porpoise_sql_plan::plan::ResultColumn;
use porpoise_types::{ColumnType, SqlMode, Value, ValueRef};
use std::sync::Arc;

/// Discards the results of an event.
struct Discard;

impl ResultSink for Discard {
    fn columns(&mut self, _: &[ResultColumn]) -> Result<()> {
        Ok(())
    }

    fn row(&mut self, _: &[ValueRef<'_>]) -> Result<()> {
        Ok(())
    }
}

/// Treatment of an event whose last time has passed when it is defined.
enum Passed {
    Keep,
    Disable,
    Drop,
}

impl SqlSession {
    /// CREATE EVENT, ALTER EVENT.
    pub(super) fn event(&mut self, event: &EventStatement<'_>, source: &[u8]) -> Result<Outcome> {
        self.check_nothing_locked()?;
        let before = self.begin_definition()?;
        let (database, name) = self.cx.qualified(&event.name)?;
        let catalog = self.cx.server.db.catalog();
        let old = catalog.event(&database, &name).cloned();
        if catalog.database(&database).is_none() {
            return Err(SqlError::unknown_database(&database));
        }
        if old.is_some() && event.if_not_exists {
            self.cx.note(1537, format!("Event '{name}' already exists"));
            return Ok(Outcome {
                position: before,
                ..Outcome::default()
            });
        }
        if event.alter && old.is_none() {
            return Err(porpoise_rows::ddl::no_event(&name).into());
        }
        if let Some(body) = &event.body {
            self.compile_event(body, source, &database, &name)?;
        }
        let mut next = self.event_base(old.as_deref().filter(|_| event.alter), &database, &name)?;
        self.change_event(&mut next, event, source)?;
        match self.passed(&next) {
            Passed::Keep => {}
            Passed::Disable => {
                let text = "Event execution time is in the past. Event has been disabled";
                self.cx.note(1544, text.to_owned());
                next.state = EventState::Disabled;
            }
            Passed::Drop if event.alter => {
                let text = "Event execution time is in the past and ON COMPLETION NOT PRESERVE is \
                            set. The event was not changed. Specify a time in the future.";
                return Err(SqlError::new(1589, "HY000", text));
            }
            Passed::Drop => {
                let text = "Event execution time is in the past and ON COMPLETION NOT PRESERVE is \
                            set. The event was dropped immediately after creation.";
                self.cx.note(1588, text.to_owned());
                return Ok(Outcome {
                    position: before,
                    ..Outcome::default()
                });
            }
        }
        let replaced = old.as_deref().filter(|_| event.alter).map(Event::key);
        let db = self.cx.server.db.clone();
        let done = db.put_event(&self.ddl_cx(), replaced.as_ref(), &next)?;
        Ok(Outcome {
            position: done.position.max(before),
            ..Outcome::default()
        })
    }

    /// The event to change, or a new one.
    fn event_base(&self, old: Option<&Event>, database: &str, name: &str) -> Result<Event> {
        if let Some(old) = old {
            return Ok(old.clone());
        }
        let catalog = self.cx.server.db.catalog();
        let collation = catalog.database(database).map(|d| d.collation);
        Ok(Event {
            database: database.to_owned(),
            name: name.to_owned(),
            body: String::new(),
            definer: String::new(),
            schedule: EventSchedule::At(0),
            preserve: false,
            state: EventState::Enabled,
            comment: String::new(),
            time_zone: String::new(),
            sql_mode: 0,
            charset: String::new(),
            collation: String::new(),
            database_collation: collation.map_or_else(String::new, |c| c.name().to_owned()),
            created: self.cx.env.now_utc.to_unix_micros(),
            modified: 0,
        })
    }

    /// Applies the clauses of a statement.
    fn change_event(
        &mut self,
        next: &mut Event,
        event: &EventStatement<'_>,
        source: &[u8],
    ) -> Result<()> {
        next.definer = self.definer_account(event.definer.as_ref())?;
        if let Some(schedule) = &event.schedule {
            next.schedule = self.schedule(schedule, source)?;
            next.time_zone = self.cx.values.text("time_zone").to_owned();
        }
        next.preserve = event.preserve.unwrap_or(next.preserve);
        next.state = match event.status {
            Some(EventStatus::Enabled) => EventState::Enabled,
            Some(EventStatus::Disabled) => EventState::Disabled,
            Some(EventStatus::DisabledOnReplica) => EventState::ReplicaDisabled,
            None => next.state,
        };
        if let Some(comment) = event.comment {
            next.comment = String::from_utf8_lossy(comment).into_owned();
        }
        if let Some(name) = &event.rename {
            let (database, name) = self.cx.qualified(name)?;
            if (&database, &name) == (&next.database, &next.name) {
                return Err(SqlError::new(1551, "HY000", "Same old and new event name"));
            }
            self.cx.need_database(Privileges::EVENT, &database)?;
            (next.database, next.name) = (database, name);
        }
        if let Some(body) = &event.body {
            next.body = String::from_utf8_lossy(body.text).into_owned();
        }
        next.sql_mode = self.cx.settings.mode.bits();
        self.cx.settings.client.name().clone_into(&mut next.charset);
        let collation = self.cx.settings.collation.name();
        collation.clone_into(&mut next.collation);
        next.modified = self.cx.env.now_utc.to_unix_micros();
        Ok(())
    }

    fn passed(&self, event: &Event) -> Passed {
        let now = self.cx.env.now_utc.to_unix_micros();
        let last = match &event.schedule {
            EventSchedule::At(at) => Some(*at),
            EventSchedule::Every { ends, .. } => *ends,
        };
        // Times of a schedule are whole seconds.
        match last {
            Some(last) if last < now - 1_000_000 && event.state == EventState::Enabled => {
                if event.preserve {
                    Passed::Disable
                } else {
                    Passed::Drop
                }
            }
            _ => Passed::Keep,
        }
    }

    fn schedule(&mut self, schedule: &Schedule<'_>, source: &[u8]) -> Result<EventSchedule> {
        match schedule {
            Schedule::At(at) => Ok(EventSchedule::At(self.moment(at, "AT", source)?)),
            Schedule::Every {
                amount,
                unit,
                starts,
                ends,
            } => {
                let (text, every) = self.interval(amount, *unit)?;
                let now = self.cx.env.now_utc.to_unix_micros();
                let starts = match starts {
                    Some(starts) => self.moment(starts, "STARTS", source)?,
                    None => now - now.rem_euclid(1_000_000),
                };
                let ends = match ends {
                    Some(ends) => Some(self.moment(ends, "ENDS", source)?),
                    None => None,
                };
                if ends.is_some_and(|ends| ends <= starts) {
                    let text = "ENDS is either invalid or before STARTS";
                    return Err(SqlError::new(1543, "HY000", text));
                }
                Ok(EventSchedule::Every {
                    amount: text,
                    unit: print::unit_name(*unit).to_owned(),
                    interval: every,
                    starts,
                    ends,
                })
            }
        }
    }

    /// The amount of an interval as it is shown, and the interval.
    fn interval(&mut self, amount: &Expr<'_>, unit: IntervalUnit) -> Result<(String, [i64; 3])> {
        use IntervalUnit as U;
        if matches!(
            unit,
            U::Microsecond
                | U::SecondMicrosecond
                | U::MinuteMicrosecond
                | U::HourMicrosecond
                | U::DayMicrosecond
        ) {
            return Err(SqlError::not_supported("MICROSECOND"));
        }
        let (value, ty) = self.value_of(amount, &[], &[])?;
        let arena = Bump::new();
        let cx = self.eval_cx(&arena, &[]);
        let found = interval(value.as_ref(), &ty, unit_of(unit), &cx)?;
        // Fractions of a second are dropped.
        let found = found.map(|i| [i.months, i.days, i.micros - i.micros % 1_000_000]);
        let positive = |i: &[i64; 3]| !value.is_null() && i.iter().all(|n| *n >= 0);
        let every = found.filter(positive);
        let shown = every.and_then(|every| Some((amount_of(unit, every)?, every)));
        shown.ok_or_else(|| {
            let text = "INTERVAL is either not positive or too big";
            SqlError::new(1542, "HY000", text)
        })
    }

    /// A time of a schedule, in whole seconds.
    fn moment(&mut self, e: &Expr<'_>, clause: &str, source: &[u8]) -> Result<i64> {
        let (value, ty) = self.value_of(e, &[], &[])?;
        let invalid = || {
            let shown = String::from_utf8_lossy(e.span.slice(source)).into_owned();
            let text = format!("Incorrect {clause} value: '{shown}'");
            SqlError::new(1525, "HY000", text)
        };
        let converted = converted(&self.cx.env, &value, &ty, &ColumnType::datetime(0), clause);
        let Ok(Value::DateTime(local)) = converted else {
            return Err(invalid());
        };
        let utc = self.cx.env.time_zone.local_to_utc_lenient(local);
        Ok(utc.ok_or_else(invalid)?.to_unix_micros())
    }

    fn compile_event(
        &self,
        body: &Body<'_>,
        source: &[u8],
        database: &str,
        name: &str,
    ) -> Result<Program> {
        compile(
            body,
            source,
            &CompileCx {
                kind: ProgramKind::Event,
                name: format!("{database}.{name}"),
                parameters: &[],
                returns: None,
                type_of: &|variable| match &variable.kind {
                    VariableKind::Parameter(ty) | VariableKind::Local(ty) => {
                        self.cx.program_type(ty, variable.name.name, database)
                    }
                    _ => Err(SqlError::internal("a row variable in an event")),
                },
                assigns_new: false,
            },
        )
    }

    /// DROP EVENT.
    pub(super) fn drop_event(&mut self, if_exists: bool, name: &TableName<'_>) -> Result<Outcome> {
        self.check_nothing_locked()?;
        let before = self.begin_definition()?;
        let (database, name) = self.cx.qualified(name)?;
        let db = self.cx.server.db.clone();
        let found = db.catalog().event(&database, &name).map(|e| e.key());
        let Some(key) = found else {
            if !if_exists {
                return Err(porpoise_rows::ddl::no_event(&name).into());
            }
            self.cx.note(1305, format!("Event {name} does not exist"));
            return Ok(Outcome {
                position: before,
                ..Outcome::default()
            });
        };
        let done = db.drop_event(&self.ddl_cx(), &key)?;
        Ok(Outcome {
            position: done.position.max(before),
            ..Outcome::default()
        })
    }

    /// Runs an event in a session of its definer.
    ///
    /// # Errors
    /// 1044 without the privilege EVENT; those of the body.
    pub(crate) fn run_event(&mut self, event: &Event) -> Result<()> {
        let _scope = Scope::enter(&self.cx.env.cancel.clone());
        self.begin_statement("Connect", Some(event.body.as_bytes()));
        let ran = self.run_event_body(event);
        let ran = ran.map(|ran| Outcome {
            position: ran.position,
            ..Outcome::default()
        });
        self.end_statement(ran).map(drop)
    }

    fn run_event_body(&mut self, event: &Event) -> Result<Ran> {
        self.cx.need_database(Privileges::EVENT, &event.database)?;
        self.assign("time_zone", false, &event.time_zone)?;
        self.apply_settings()?;
        let mode = SqlMode::from_bits(event.sql_mode);
        let source = format!("CREATE EVENT x ON SCHEDULE EVERY 1 DAY DO {}", event.body);
        let arena = Bump::new();
        let options = ParseOptions {
            mode: lex_mode(mode),
            ..ParseOptions::default()
        };
        let parsed = parse_one(&arena, source.as_bytes(), 0, &options);
        let parsed = parsed.map_err(|e| SqlError::syntax(&e, source.as_bytes()))?;
        let Statement::Event(EventStatement {
            body: Some(body), ..
        }) = &parsed.statement
        else {
            return Err(SqlError::internal("an event that is not a CREATE EVENT"));
        };
        let program = self.compile_event(body, source.as_bytes(), &event.database, &event.name)?;
        let entered = self.enter_program(&ProgramContext {
            definer: None,
            sql_mode: mode,
            database: &event.database,
            collation: &event.collation,
        })?;
        let mut frame = Frame::new(&program);
        let ran = self.run_program(&program, &mut frame, &mut Discard);
        let left = self.leave_program(entered);
        ran.and_then(|ran| left.map(|()| ran))
    }

    /// Drops an event that has run for the last time, or disables it.
    pub(crate) fn complete_event(&mut self, event: &Arc<Event>) -> Result<()> {
        let db = self.cx.server.db.clone();
        let key = event.key();
        if db.catalog().event(&key.0, &key.1) != Some(event) {
            return Ok(());
        }
        if event.preserve {
            let next = Event {
                state: EventState::Disabled,
                ..Event::clone(event)
            };
            db.put_event(&self.ddl_cx(), Some(&key), &next)?;
        } else {
            db.drop_event(&self.ddl_cx(), &key)?;
        }
        Ok(())
    }
}
