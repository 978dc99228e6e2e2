//! Conditions of programs: which handler catches one, SIGNAL and GET DIAGNOSTICS.
//!
//! A condition is searched in the scope of the instruction that raised it and the scopes around it. A
//! handler's body runs with a diagnostics area of its own on top of the one of the condition.

use super::SqlSession;
use super::programs::Flow;
use crate::programs::condition::{
    Condition, condition_numbered, diagnostics_item, resignal_without_handler, signal_condition,
};
use crate::programs::frame::{Activation, Frame};
use crate::programs::program::{Instruction, Program, RaisedCondition, Source, Target};
use porpoise_base::interrupt::{self, Interrupted};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_types::{ColumnType, Level};

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
    /// handler of a warning, or at `next`. The first `known` conditions are older than the
    /// instruction.
    pub(super) fn catch_warning(
        &mut self,
        program: &Program,
        frame: &mut Frame,
        (at, next): (usize, usize),
        known: usize,
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
        let raised = frame.conditions.get(known..).unwrap_or_default();
        match raised.iter().rev().find_map(handled) {
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
        frame.activations.push(Activation {
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
        frame.conditions.clear();
        self.cx.diagnostics.begin();
        self.cx.diagnostics.end(Vec::new(), 0, None, true);
        let resume = frame.activations.pop().map(|a| a.resume);
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
        let mut set = Vec::with_capacity(items.len());
        for (name, source) in items {
            let (value, ty) = self.value_of_source(source, frame)?;
            set.push((name.clone(), value, ColumnType::clone(&ty)));
        }
        let handled = frame.activations.last().map(|a| a.condition.clone());
        let condition = if again {
            let handled = handled.ok_or_else(resignal_without_handler)?;
            signal_condition(Some(handled), raised, set)?
        } else {
            signal_condition(None, raised, set)?
        };
        if !again {
            frame.conditions.clear();
        } else if raised.is_none() {
            frame.conditions.pop();
        }
        if condition.level == Level::Error {
            let state = String::from_utf8_lossy(&condition.sqlstate);
            let error = SqlError::new(condition.code, &state, condition.message.clone());
            self.programs.signalled = Some(condition);
            return Err(error);
        }
        let warnings = vec![condition.warning()];
        frame.conditions.push(condition);
        self.cx.diagnostics.begin();
        self.cx.diagnostics.end(warnings, 0, None, true);
        Ok(Flow::Next)
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
        let numbered = number.map(|(value, _)| condition_numbered(&conditions, &value));
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
