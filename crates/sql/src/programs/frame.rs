//! The state of one execution of a program.

use super::condition::Condition;
use super::program::Program;
use porpoise_base::memory::MemoryCharge;
use porpoise_sql_exec::exec::row_queue::RowQueue;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_expr::memory::SessionMemory;
use porpoise_types::{ColumnType, Value};
use std::sync::Arc;

/// An open cursor: the rows of its query when it was opened, from the next one to fetch on.
pub(crate) struct OpenCursor {
    /// The rows.
    pub rows: RowQueue,
    /// Types of the columns.
    pub types: Vec<ColumnType>,
}

/// A handler whose body is executed.
pub(crate) struct Activation {
    /// The handler.
    pub handler: u32,
    /// The condition that it handles.
    pub condition: Condition,
    /// The instruction at which a CONTINUE handler continues.
    pub resume: usize,
    /// The diagnostics area at the time.
    pub stacked: Vec<Condition>,
    /// ROW_COUNT at the time.
    pub row_count: i64,
}

impl Activation {
    /// Replaces the handled condition by that of RESIGNAL, unless RESIGNAL adds a further condition. Returns the
    /// diagnostics area without the condition of RESIGNAL; `None` if RESIGNAL itself fails.
    pub fn resignal(&mut self, raised: Option<&Condition>, is_new: bool) -> Vec<Condition> {
        let Some(raised) = raised else {
            return self.stacked.clone();
        };
        if !is_new {
            let is_handled = |c: &Condition| {
                c.code == self.condition.code && c.message == self.condition.message
            };
            if let Some(at) = self.stacked.iter().rposition(is_handled) {
                self.stacked.remove(at);
            }
            self.condition = raised.clone();
        }
        let before = self.stacked.clone();
        self.stacked.push(raised.clone());
        before
    }
}

/// Variables, cursors and handlers of one execution.
pub(crate) struct Frame {
    values: Vec<Value>,
    /// Types of the operands of CASE statements, by slot.
    operands: Vec<(u32, Arc<ColumnType>)>,
    /// Open cursors.
    pub cursors: Vec<Option<Box<OpenCursor>>>,
    /// Handlers whose bodies are executed, innermost last.
    pub activations: Vec<Activation>,
    /// The diagnostics area.
    pub conditions: Vec<Condition>,
    /// Slots of columns of NEW that procedures have assigned through OUT and INOUT parameters.
    pub assigned_by_procedures: Vec<u32>,
    /// Number of conditions that existed when the innermost active handler was entered: they are removed at the end
    /// of its body, and those that the body has raised stay.
    handled: usize,
    /// Bytes of the values, and their charge.
    bytes: usize,
    charged: usize,
    charge: Option<MemoryCharge>,
}

/// Heap memory of a value.
fn size_of_value(value: &Value) -> usize {
    match value {
        Value::Bytes(bytes) => bytes.len(),
        _ => 0,
    }
}

/// Variables are charged in steps of this many bytes.
const CHARGE_STEP: usize = 16 * 1024;

/// Bytes of variables that are not charged: most programs, above all triggers, which run for each
/// row, have no more.
const UNCHARGED: usize = 1024;

impl Frame {
    /// The state at the start of a program: all variables are NULL.
    pub fn new(program: &Program) -> Frame {
        let count = program.variables.len();
        Frame {
            values: vec![Value::Null; count],
            operands: Vec::new(),
            cursors: (0..program.cursors.len()).map(|_| None).collect(),
            activations: Vec::new(),
            conditions: Vec::new(),
            assigned_by_procedures: Vec::new(),
            handled: 0,
            bytes: count * size_of::<Value>(),
            charged: 0,
            charge: None,
        }
    }

    /// Clears the diagnostics area, at the start of a statement.
    pub fn clear_conditions(&mut self) {
        self.conditions.clear();
        self.handled = 0;
    }

    /// Replaces the diagnostics area by that of RESIGNAL, whose conditions outlive the handler.
    pub fn replace_conditions(&mut self, conditions: Vec<Condition>) {
        self.conditions = conditions;
        self.handled = 0;
    }

    /// Enters a handler, with a copy of the diagnostics area.
    pub fn enter_handler(&mut self, activation: Activation) {
        self.activations.push(activation);
        self.handled = self.conditions.len();
    }

    /// Leaves the innermost handler: only conditions that its body has raised stay.
    pub fn leave_handler(&mut self) -> Option<Activation> {
        let handled = self.handled.min(self.conditions.len());
        self.conditions.drain(..handled);
        self.handled = 0;
        self.activations.pop()
    }

    /// The value of a variable.
    pub fn get(&self, slot: u32) -> &Value {
        self.values.get(slot as usize).unwrap_or(&Value::Null)
    }

    /// The type of the operand of a CASE statement.
    pub fn operand_type(&self, slot: u32) -> Option<&ColumnType> {
        let mut operands = self.operands.iter();
        Some(&operands.find(|(of, _)| *of == slot)?.1)
    }

    /// Sets the type of the operand of a CASE statement.
    pub fn set_operand_type(&mut self, slot: u32, ty: Arc<ColumnType>) {
        self.operands.retain(|(of, _)| *of != slot);
        self.operands.push((slot, ty));
    }

    /// Sets a variable to a value of its type.
    pub fn set(&mut self, slot: u32, value: Value, memory: &SessionMemory) -> Result<()> {
        let Some(place) = self.values.get_mut(slot as usize) else {
            return Err(SqlError::internal("no such variable"));
        };
        self.bytes = self.bytes.saturating_sub(size_of_value(place)) + size_of_value(&value);
        *place = value;
        if self.bytes > self.charged.max(UNCHARGED) {
            let wanted = self.bytes + CHARGE_STEP;
            self.charge = None;
            self.charge = memory.charge(wanted)?;
            self.charged = wanted;
        }
        Ok(())
    }
}
