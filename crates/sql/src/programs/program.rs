//! Compiled programs.

use super::condition::HandledCondition;
use parking_lot::Mutex;
use porpoise_sql_parser::ast::{ParameterMode, ProgramKind};
use porpoise_sql_parser::token::Span;
use porpoise_types::ColumnType;
use std::any::Any;
use std::sync::Arc;

/// A plan that the session keeps with an expression or a statement of a program.
#[derive(Default)]
pub(crate) struct PlanSlot(Mutex<Option<Box<dyn Any + Send>>>);

impl PlanSlot {
    /// Takes the plan out, for one execution: a recursive one makes its own.
    pub fn take<T: Send + 'static>(&self) -> Option<Box<T>> {
        self.0.lock().take()?.downcast().ok()
    }

    /// Stores a plan.
    pub fn put<T: Send + 'static>(&self, plan: Box<T>) {
        *self.0.lock() = Some(plan);
    }
}

impl std::fmt::Debug for PlanSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PlanSlot")
    }
}

/// The text of an expression or a statement, with the variables that it uses.
#[derive(Debug)]
pub(crate) struct Source {
    /// The text.
    pub text: Arc<[u8]>,
    /// Places of the variables in it: its parameters.
    pub places: Box<[Span]>,
    /// Slots of these variables.
    pub slots: Box<[u32]>,
    /// Types of these variables.
    pub types: Box<[ColumnType]>,
    /// The plan of the last execution.
    pub plan: PlanSlot,
}

/// A variable to assign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A variable of the frame.
    Slot(u32),
    /// A user variable.
    User(Arc<str>),
}

/// A condition that SIGNAL raises.
#[derive(Clone, Debug)]
pub(crate) struct RaisedCondition {
    /// Its SQLSTATE.
    pub sqlstate: [u8; 5],
    /// The error number, if the condition's declaration has one.
    pub code: Option<u16>,
}

/// CALL
#[derive(Debug)]
pub(crate) struct CallInstruction {
    /// The database, if given.
    pub database: Option<String>,
    /// The procedure.
    pub name: String,
    /// Values of the arguments, and the variables that are arguments.
    pub args: Box<[(Source, Option<Target>)]>,
    /// The procedure that the last execution has found.
    pub resolved: PlanSlot,
}

/// An instruction.
#[derive(Debug)]
pub(crate) enum Instruction {
    /// Assigns a variable; `None` is NULL.
    Assign(u32, Option<Source>),
    /// Assigns a user variable.
    AssignUser(Arc<str>, Source),
    /// Executes a statement, and assigns its only row.
    Sql {
        /// The statement.
        source: Source,
        /// INTO
        into: Option<Box<[Target]>>,
        /// Whether it leaves the diagnostics area as it is.
        is_diagnostic: bool,
    },
    /// CALL
    Call(Box<CallInstruction>),
    /// Goes on at another instruction.
    Jump(usize),
    /// Goes on at `target` unless the condition is true.
    JumpUnless {
        /// The condition.
        condition: Source,
        /// The other instruction.
        target: usize,
        /// Target of a CONTINUE handler of an error of the condition.
        resume: usize,
    },
    /// Evaluates the operand of a CASE, and keeps it in a slot of its own.
    CaseOperand {
        /// The slot.
        slot: u32,
        /// The operand.
        operand: Source,
        /// Target of a CONTINUE handler of its error.
        resume: usize,
    },
    /// Goes on at `target` unless the operand of the CASE equals a value.
    JumpUnlessEqual {
        /// The slot of the operand.
        slot: u32,
        /// The value.
        value: Source,
        /// The other instruction.
        target: usize,
        /// Target of a CONTINUE handler of its error.
        resume: usize,
    },
    /// Error 1339: no WHEN of a CASE without ELSE is true.
    CaseNotFound,
    /// RETURN
    Return(Source),
    /// OPEN
    Open(u32),
    /// FETCH
    Fetch(u32, Box<[Target]>),
    /// CLOSE
    Close(u32),
    /// Closes the cursors from this one on, at the beginning and the end of a block.
    CloseFrom(u32, u32),
    /// End of a handler's body.
    HandlerEnd(u32),
    /// SIGNAL, RESIGNAL
    Signal {
        /// RESIGNAL
        again: bool,
        /// The condition.
        condition: Option<RaisedCondition>,
        /// SET
        items: Box<[(String, Source)]>,
    },
    /// GET DIAGNOSTICS
    GetDiagnostics {
        /// STACKED
        stacked: bool,
        /// The number of the condition.
        condition: Option<Source>,
        /// The assignments.
        items: Box<[(Target, String)]>,
    },
}

impl Instruction {
    /// The target of a jump.
    pub fn target_mut(&mut self) -> Option<&mut usize> {
        match self {
            Instruction::Jump(target)
            | Instruction::JumpUnless { target, .. }
            | Instruction::JumpUnlessEqual { target, .. } => Some(target),
            _ => None,
        }
    }

    /// The expressions and statements that it evaluates, except variables that are arguments of a
    /// procedure.
    fn read_sources(&self) -> Vec<&Source> {
        match self {
            Instruction::Assign(_, Some(source))
            | Instruction::AssignUser(_, source)
            | Instruction::Sql { source, .. }
            | Instruction::Return(source)
            | Instruction::JumpUnless {
                condition: source, ..
            }
            | Instruction::CaseOperand {
                operand: source, ..
            }
            | Instruction::JumpUnlessEqual { value: source, .. }
            | Instruction::GetDiagnostics {
                condition: Some(source),
                ..
            } => vec![source],
            Instruction::Call(call) => {
                let is_read = |(_, target): &&(Source, Option<Target>)| {
                    !matches!(target, Some(Target::Slot(_)))
                };
                let args = call.args.iter().filter(is_read);
                args.map(|(source, _)| source).collect()
            }
            Instruction::Signal { items, .. } => items.iter().map(|(_, source)| source).collect(),
            _ => Vec::new(),
        }
    }

    /// The instruction at which a CONTINUE handler continues, if not the next one.
    pub fn resume(&self) -> Option<usize> {
        match self {
            Instruction::JumpUnless { resume, .. }
            | Instruction::CaseOperand { resume, .. }
            | Instruction::JumpUnlessEqual { resume, .. } => Some(*resume),
            _ => None,
        }
    }

    /// [`Self::resume`], to be set.
    pub fn resume_mut(&mut self) -> Option<&mut usize> {
        match self {
            Instruction::JumpUnless { resume, .. }
            | Instruction::CaseOperand { resume, .. }
            | Instruction::JumpUnlessEqual { resume, .. } => Some(resume),
            _ => None,
        }
    }
}

/// A cursor.
#[derive(Debug)]
pub(crate) struct Cursor {
    /// Its query.
    pub query: Source,
}

/// A handler.
#[derive(Debug)]
pub(crate) struct Handler {
    /// The instruction after an EXIT handler; `None` for CONTINUE.
    pub exit: Option<usize>,
    /// The conditions that it handles.
    pub conditions: Vec<HandledCondition>,
    /// Its first instruction.
    pub start: usize,
    /// The handler in whose body the block is that declares it.
    pub enclosing: Option<u32>,
}

/// A scope of handlers.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    /// The next one to search.
    pub parent: Option<u32>,
    /// Handlers of the block.
    pub handlers: Vec<u32>,
}

/// A column of the row of a trigger.
#[derive(Clone, Debug)]
pub(crate) struct RowVariable {
    /// Slot in the frame.
    pub slot: u32,
    /// NEW; otherwise OLD.
    pub is_new: bool,
    /// The column.
    pub column: String,
    /// Whether the program may assign it: NEW in a BEFORE trigger.
    pub is_assignable: bool,
    /// Whether the program itself assigns it. A procedure that has it as an argument may assign it as well
    /// ([`Frame::assigned_by_procedures`](super::frame::Frame)).
    pub assigned: bool,
}

/// A compiled program.
#[derive(Debug)]
pub(crate) struct Program {
    /// Kind.
    pub kind: ProgramKind,
    /// `database.name`, for messages.
    pub name: String,
    /// The instructions.
    pub code: Vec<Instruction>,
    /// The scope of each instruction.
    pub scope_of: Vec<u32>,
    /// The scopes; the first one has no handlers.
    pub scopes: Vec<Scope>,
    /// The handlers.
    pub handlers: Vec<Handler>,
    /// The cursors.
    pub cursors: Vec<Cursor>,
    /// Names and types of the variables, by slot.
    pub variables: Vec<(String, ColumnType)>,
    /// Directions of the parameters, which have the first slots.
    pub parameters: Vec<ParameterMode>,
    /// The type of a function's result.
    pub returns: Option<ColumnType>,
    /// Row variables of a trigger.
    pub row_variables: Vec<RowVariable>,
    /// Database and name of the table of a trigger.
    pub trigger_table: Option<(String, String)>,
}

impl Program {
    /// Whether an expression or a statement of the program uses a variable, other than as an argument of a
    /// procedure, which may only assign it.
    pub fn reads(&self, slot: u32) -> bool {
        let cursors = self.cursors.iter().map(|cursor| &cursor.query);
        let read = self.code.iter().flat_map(Instruction::read_sources);
        let mut sources = read.chain(cursors);
        sources.any(|source| source.slots.contains(&slot))
    }

    /// The row variable of a slot.
    pub fn row_variable(&self, slot: u32) -> Option<&RowVariable> {
        self.row_variables.iter().find(|row| row.slot == slot)
    }
}

/// The type that a variable has in expressions.
pub(crate) fn sql_type(ty: &ColumnType) -> ColumnType {
    use porpoise_types::Kind;
    match ty.kind {
        Kind::Timestamp => ColumnType::datetime(ty.decimals),
        Kind::Enum | Kind::Set => ColumnType::varchar(ty.length.max(1), ty.collation),
        _ => ty.clone(),
    }
}
