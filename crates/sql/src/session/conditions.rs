//! Conditions of programs: which handler catches one, SIGNAL and GET DIAGNOSTICS.
//!
//! A condition is searched in the scope of the instruction that raised it and the scopes around it. A
//! handler's body runs with a diagnostics area of its own on top of the one of the condition.

use super::SqlSession;
use super::programs::Flow;
use crate::programs::condition::{
    Condition, condition_numbered, diagnostics_item, resignal_without_handler, text_of,
};
use crate::programs::frame::{Activation, Frame};
use crate::programs::program::{Instruction, Program, RaisedCondition, Source, Target};
use bumpalo::Bump;
use porpoise_base::interrupt::{self, Interrupted};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_expr::expr::convert;
use porpoise_types::{ColumnType, Level, Value, ValueRef};

/// Maximum length of MESSAGE_TEXT in characters.
const MAX_MESSAGE: usize = 128;

/// Maximum length of other items of SIGNAL in characters.
const MAX_ITEM: usize = 64;

impl SqlSession {
    /// The handler of a condition that the instruction at `at` raised.
    fn handler_of(program: &Program, at: usize, condition: &Condition) -> Option<u32> {
        let mut scope = program.scope_of.get(at).copied();
        while let Some(found) = scope.and_then(|s| program.scopes.get(s as usize)) {
            let precedence = |handler: &u32| {
                let handler = program.handlers.get(*handler as usize);
                let conditions = handler.map(|h| h.conditions.iter());
                let all = conditions.into_iter().flatten();
                all.map(|c| c.precedence(condition)).max().unwrap_or(0)
            };
            let best = found
                .handlers
                .iter()
                .max_by_key(|handler| precedence(handler));
            if let Some(handler) = best.filter(|handler| precedence(handler) > 0) {
                return Some(*handler);
            }
            scope = found.parent;
        }
        None
    }

    /// Position at which execution continues after an error: in its handler.
    pub(super) fn catch_error(
        &mut self,
        program: &Program,
        frame: &mut Frame,
        at: usize,
        error: SqlError,
    ) -> Result<usize> {
        let signalled = self.programs.signalled.take();
        let nested = self.programs.nested > 0;
        if nested && (error.rolled_back || self.programs.restart) {
            return Err(error);
        }
        let error = if nested {
            error
        } else {
            self.cx.env.memory.end_statement();
            self.end_transaction_on_error(error)
        };
        if error.fatal || interrupt::outcome().is_err() {
            return Err(error);
        }
        if let Some(reason) = self.cx.env.cancel.reason() {
            return Err(error.because(Interrupted(reason)));
        }
        let same = |c: &Condition| c.code == error.code && c.message == error.message;
        let condition = signalled
            .filter(same)
            .unwrap_or_else(|| Condition::of_error(&error));
        let Some(handler) = Self::handler_of(program, at, &condition) else {
            self.programs.signalled = Some(condition);
            return Err(error);
        };
        self.end_part(frame);
        frame.conditions.push(condition.clone());
        let resume = program.code.get(at).and_then(Instruction::resume);
        let resume = resume.unwrap_or(at + 1);
        Ok(self.activate(program, frame, handler, condition, resume))
    }

    /// Position at which execution continues after the instruction at `at`, which succeeded: in the
    /// handler of a warning, or at `next`.
    pub(super) fn catch_warning(
        &mut self,
        program: &Program,
        frame: &mut Frame,
        (at, next): (usize, usize),
    ) -> usize {
        let raises = matches!(
            program.code.get(at),
            Some(
                Instruction::Sql {
                    is_diagnostic: false,
                    ..
                } | Instruction::Assign(..)
                    | Instruction::AssignUser(..)
                    | Instruction::Call(_)
                    | Instruction::Fetch(..)
                    | Instruction::Open(_)
                    | Instruction::JumpUnless { .. }
                    | Instruction::CaseOperand { .. }
                    | Instruction::JumpUnlessEqual { .. }
                    | Instruction::Signal { .. }
            )
        );
        if !raises || frame.conditions.is_empty() || program.handlers.is_empty() {
            return next;
        }
        let handled = |c: &Condition| Some((Self::handler_of(program, at, c)?, c.clone()));
        match frame.conditions.iter().rev().find_map(handled) {
            Some((handler, condition)) => self.activate(program, frame, handler, condition, next),
            None => next,
        }
    }

    /// Enters a handler; returns the first instruction of its body.
    fn activate(
        &mut self,
        program: &Program,
        frame: &mut Frame,
        handler: u32,
        condition: Condition,
        resume: usize,
    ) -> usize {
        let warnings = frame.conditions.iter().map(Condition::warning).collect();
        self.cx.diagnostics.begin();
        self.cx.diagnostics.end(warnings, 0, None, true);
        frame.enter_handler(Activation {
            handler,
            resume,
            condition,
            stacked: frame.conditions.clone(),
            row_count: self.cx.env.row_count,
        });
        let found = program.handlers.get(handler as usize);
        found.map_or(program.code.len(), |h| h.start)
    }

    pub(super) fn end_handler(
        &mut self,
        number: u32,
        program: &Program,
        frame: &mut Frame,
    ) -> Flow {
        let resume = frame.leave_handler().map(|a| a.resume);
        let raised = frame.conditions.iter().map(Condition::warning).collect();
        self.cx.diagnostics.begin();
        self.cx.diagnostics.end(raised, 0, None, true);
        let handler = program.handlers.get(number as usize);
        let Some((handler, exit)) = handler.and_then(|h| Some((h, h.exit?))) else {
            return Flow::Jump(resume.unwrap_or(program.code.len()));
        };
        // The block of an EXIT handler is left, and with it the handlers entered inside of it.
        let outer = handler.enclosing.and_then(|outer| {
            let mut active = frame.activations.iter();
            active.rposition(|a| a.handler == outer)
        });
        frame.activations.truncate(outer.map_or(0, |at| at + 1));
        Flow::Jump(exit)
    }

    pub(super) fn signal_step(
        &mut self,
        again: bool,
        raised: Option<&RaisedCondition>,
        items: &[(String, Source)],
        frame: &mut Frame,
    ) -> Result<Flow> {
        if !again {
            frame.clear_conditions();
        }
        self.cx.env.warnings.get_mut().clear();
        let mut set = Vec::with_capacity(items.len());
        for (name, source) in items {
            let (value, ty) = self.value_of_source(source, frame)?;
            set.push((name.clone(), value, ColumnType::clone(&ty)));
        }
        let active = frame.activations.last().filter(|_| again);
        let handled = active.map(|active| active.condition.clone());
        if again && handled.is_none() {
            return Err(resignal_without_handler());
        }
        let made = self.signalled_condition(handled, raised, set);
        let warned = std::mem::take(self.cx.env.warnings.get_mut());
        let mut conditions = match frame.activations.last_mut() {
            Some(active) if again => active.resignal(made.as_ref().ok(), raised.is_some()),
            _ => Vec::new(),
        };
        conditions.extend(warned.iter().map(Condition::of_warning));
        let condition = made.inspect_err(|_| frame.replace_conditions(conditions.clone()))?;
        conditions.push(condition.clone());
        frame.replace_conditions(conditions);
        if condition.level == Level::Error {
            // The error itself is added when it is caught.
            frame.conditions.pop();
            let state = String::from_utf8_lossy(&condition.sqlstate);
            let error = SqlError::new(condition.code, &state, condition.message.clone());
            self.programs.signalled = Some(condition);
            return Err(error);
        }
        let warnings = frame.conditions.iter().map(Condition::warning).collect();
        self.cx.diagnostics.begin();
        self.cx.diagnostics.end(warnings, 0, None, true);
        Ok(Flow::Next)
    }

    /// The condition that SIGNAL raises, or RESIGNAL from the handled one. Texts that are too long are
    /// truncated with warning 1647.
    ///
    /// # Errors
    /// 1231 for NULL and numbers that no error has; 1648 in strict mode.
    pub(super) fn signalled_condition(
        &self,
        handled: Option<Condition>,
        raised: Option<&RaisedCondition>,
        items: Vec<(String, Value, ColumnType)>,
    ) -> Result<Condition> {
        let mut condition = Condition::raised(handled, raised);
        for (name, value, ty) in items {
            let refused = |shown: &str| SqlError::wrong_variable_value(&name, shown);
            if value.is_null() {
                return Err(refused("NULL"));
            }
            let text = String::from_utf8_lossy(&text_of(&value)).into_owned();
            if name == "MYSQL_ERRNO" {
                let number = u16::try_from(self.integer_item(&value, &ty)?).ok();
                let number = number.filter(|number| *number > 0);
                condition.code = number.ok_or_else(|| refused(&text))?;
                continue;
            }
            let most = if name == "MESSAGE_TEXT" {
                MAX_MESSAGE
            } else {
                MAX_ITEM
            };
            let Some((end, _)) = text.char_indices().nth(most) else {
                condition.set_item(name, text);
                continue;
            };
            if self.cx.env.mode.is_strict() {
                let message = format!("Data too long for condition item '{name}'");
                return Err(SqlError::new(1648, "HY000", message));
            }
            let message = format!("Data truncated for condition item '{name}'");
            self.cx.warn(1647, message);
            let text = text.get(..end).unwrap_or_default().to_owned();
            condition.set_item(name, text);
        }
        Ok(condition)
    }

    /// The integer value of an item of SIGNAL or GET DIAGNOSTICS.
    pub(super) fn integer_item(&self, value: &Value, ty: &ColumnType) -> Result<i64> {
        let to = ColumnType::bigint();
        let (value, ty) = convert::for_assignment(value.as_ref(), ty, &to);
        if let ValueRef::UInt(number) = value {
            return Ok(i64::try_from(number).unwrap_or(i64::MAX));
        }
        let arena = Bump::new();
        convert::int(value, ty, &self.eval_cx(&arena, &[]))
    }

    pub(super) fn get_diagnostics_step(
        &mut self,
        stacked: bool,
        number: Option<&Source>,
        items: &[(Target, String)],
        program: &Program,
        frame: &mut Frame,
    ) -> Result<Flow> {
        let number = match number.map(|source| self.value_of_source(source, frame)) {
            Some(Err(error)) => {
                frame.conditions.push(Condition::of_error(&error));
                return Ok(Flow::Next);
            }
            number => number.and_then(Result::ok),
        };
        let (conditions, row_count) = match frame.activations.last() {
            Some(active) if stacked => (active.stacked.clone(), active.row_count),
            None if stacked => {
                let text = "GET STACKED DIAGNOSTICS when handler not active";
                return Err(SqlError::new(1887, "0Z002", text));
            }
            _ => (frame.conditions.clone(), self.cx.env.row_count),
        };
        let numbered = number.map(|(value, ty)| {
            let number = self.integer_item(&value, &ty)?;
            condition_numbered(&conditions, number)
        });
        let condition = match numbered.transpose() {
            Ok(condition) => condition,
            // An error of GET DIAGNOSTICS itself becomes a further condition.
            Err(error) => {
                frame.conditions.push(Condition::of_error(&error));
                return Ok(Flow::Next);
            }
        };
        for (target, name) in items {
            let (value, ty) = diagnostics_item(&conditions, condition, row_count, name);
            self.assign_target(program, frame, target, value, &ty)?;
        }
        Ok(Flow::Next)
    }
}
