//! Stored programs: procedures, functions, and the bodies that triggers and events share with them.
//!
//! Names of variables are resolved while a body is parsed, because a variable hides a column of the
//! same name (manual, "Local Variable Scope and Resolution"). Every parameter, variable and row
//! variable (`NEW.c`, `OLD.c`) of a body has a slot, an index into [`Body::variables`]. In an
//! expression or a statement a variable is an [`super::ExprKind::Param`]: the n-th parameter is the
//! n-th entry of its list of [`VariableUse`]s. So a statement of a body is planned like a prepared
//! statement, and its text is kept as written ([`super::super::Literals::Variables`] parses it
//! again).

use super::super::token::Span;
use super::{Account, DataType, Expr, Ident, IntoVar, ProgramKind, SetItem, Statement, TableName};

/// The use of a variable in an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VariableUse {
    /// Slot of the variable.
    pub slot: u32,
    /// Position of its name in the text, with the qualifier of a row variable.
    pub span: Span,
}

/// The kinds of variables of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableKind<'a> {
    /// A parameter.
    Parameter(DataType<'a>),
    /// A variable that DECLARE declares.
    Local(DataType<'a>),
    /// `OLD.column` of a trigger.
    Old,
    /// `NEW.column` of a trigger.
    New,
}

/// A variable of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable<'a> {
    /// Its name; that of the column for a row variable.
    pub name: Ident<'a>,
    /// Kind and type.
    pub kind: VariableKind<'a>,
}

/// The row variables that a body may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowVariables {
    /// `OLD.column`
    pub old: bool,
    /// `NEW.column`
    pub new: bool,
}

/// An expression of a body.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProgramExpr<'a> {
    /// The expression.
    pub expr: Expr<'a>,
    /// Variables, in the order of its parameters.
    pub uses: &'a [VariableUse],
    /// Position in the text, with outer parentheses.
    pub span: Span,
}

/// An SQL statement of a body.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProgramSql<'a> {
    /// The statement.
    pub statement: Statement<'a>,
    /// Variables, in the order of its parameters.
    pub uses: &'a [VariableUse],
    /// Position in the text.
    pub span: Span,
}

/// The body of a stored program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Body<'a> {
    /// Its statement.
    pub root: ProgramStatement<'a>,
    /// Its variables by slot; parameters come first.
    pub variables: &'a [Variable<'a>],
    /// Its source text.
    pub text: &'a [u8],
    /// Position in the text.
    pub span: Span,
}

/// A statement of a body.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProgramStatement<'a> {
    /// Kind and parts.
    pub kind: ProgramStatementKind<'a>,
    /// Position in the text.
    pub span: Span,
}

/// The kinds of statements of a body.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ProgramStatementKind<'a> {
    /// BEGIN ... END
    Block(&'a Block<'a>),
    /// IF
    If(&'a IfStatement<'a>),
    /// CASE
    Case(&'a CaseStatement<'a>),
    /// LOOP, WHILE, REPEAT
    Loop(&'a Loop<'a>),
    /// LEAVE
    Leave(Ident<'a>),
    /// ITERATE
    Iterate(Ident<'a>),
    /// RETURN
    Return(&'a ProgramExpr<'a>),
    /// OPEN
    Open(Ident<'a>),
    /// FETCH
    Fetch {
        /// The cursor.
        cursor: Ident<'a>,
        /// The variables that take the row.
        into: &'a [IntoVar<'a>],
    },
    /// CLOSE
    Close(Ident<'a>),
    /// SET
    Set(&'a [Assign<'a>]),
    /// Any other statement.
    Sql(&'a ProgramSql<'a>),
}

/// An assignment of SET in a body.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Assign<'a> {
    /// To a variable of the body.
    Local(u32, ProgramExpr<'a>),
    /// To a user variable.
    User(&'a [u8], ProgramExpr<'a>),
    /// To a system variable, NAMES, CHARACTER SET.
    Other {
        /// The assignment.
        item: SetItem<'a>,
        /// Variables, in the order of its parameters.
        uses: &'a [VariableUse],
        /// Position in the text.
        span: Span,
    },
}

/// `[label:] BEGIN ... END [label]`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block<'a> {
    /// The label.
    pub label: Option<Ident<'a>>,
    /// DECLARE statements.
    pub declarations: &'a [Declaration<'a>],
    /// The statements.
    pub statements: &'a [ProgramStatement<'a>],
    /// The label after END.
    pub end_label: Option<Ident<'a>>,
}

/// DECLARE
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Declaration<'a> {
    /// `a, b type DEFAULT expr`
    Variables {
        /// Slots of the variables.
        slots: &'a [u32],
        /// The initial value.
        default: Option<ProgramExpr<'a>>,
    },
    /// `name CONDITION FOR value`
    Condition {
        /// Its name.
        name: Ident<'a>,
        /// The condition.
        value: ConditionValue<'a>,
    },
    /// `name CURSOR FOR query`
    Cursor {
        /// Its name.
        name: Ident<'a>,
        /// The query.
        query: ProgramSql<'a>,
    },
    /// `{CONTINUE | EXIT} HANDLER FOR conditions statement`
    Handler {
        /// EXIT; otherwise CONTINUE.
        exit: bool,
        /// The conditions.
        conditions: &'a [ConditionValue<'a>],
        /// The statement.
        statement: &'a ProgramStatement<'a>,
    },
}

/// A condition that a handler handles, or that SIGNAL raises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionValue<'a> {
    /// SQLSTATE 'x'
    SqlState(&'a [u8]),
    /// An error number.
    Code(u64),
    /// The name of a condition.
    Name(Ident<'a>),
    /// SQLWARNING
    SqlWarning,
    /// NOT FOUND
    NotFound,
    /// SQLEXCEPTION
    SqlException,
}

/// IF
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IfStatement<'a> {
    /// Conditions of IF and ELSEIF with their statements.
    pub arms: &'a [(ProgramExpr<'a>, &'a [ProgramStatement<'a>])],
    /// ELSE
    pub otherwise: Option<&'a [ProgramStatement<'a>]>,
}

/// CASE as a statement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CaseStatement<'a> {
    /// The value that the arms are compared with, if given.
    pub operand: Option<ProgramExpr<'a>>,
    /// WHEN and THEN.
    pub arms: &'a [(ProgramExpr<'a>, &'a [ProgramStatement<'a>])],
    /// ELSE
    pub otherwise: Option<&'a [ProgramStatement<'a>]>,
}

/// The kinds of loops.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoopKind<'a> {
    /// LOOP
    Forever,
    /// `WHILE condition DO`
    While(ProgramExpr<'a>),
    /// `REPEAT ... UNTIL condition`
    Until(ProgramExpr<'a>),
}

/// A loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loop<'a> {
    /// The label.
    pub label: Option<Ident<'a>>,
    /// Kind and condition.
    pub kind: LoopKind<'a>,
    /// The statements.
    pub statements: &'a [ProgramStatement<'a>],
    /// The label after the end.
    pub end_label: Option<Ident<'a>>,
}

/// The direction of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterMode {
    /// IN
    In,
    /// OUT
    Out,
    /// INOUT
    InOut,
}

/// A parameter of a procedure or a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter<'a> {
    /// Direction.
    pub mode: ParameterMode,
    /// Its name.
    pub name: Ident<'a>,
    /// Its type.
    pub ty: DataType<'a>,
}

/// Access to data that a routine declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataAccess {
    /// CONTAINS SQL
    ContainsSql,
    /// NO SQL
    NoSql,
    /// READS SQL DATA
    ReadsSqlData,
    /// MODIFIES SQL DATA
    ModifiesSqlData,
}

/// Characteristics of a routine; `None` where not given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Characteristics<'a> {
    /// COMMENT
    pub comment: Option<&'a [u8]>,
    /// DETERMINISTIC, NOT DETERMINISTIC
    pub deterministic: Option<bool>,
    /// CONTAINS SQL and the like.
    pub access: Option<DataAccess>,
    /// SQL SECURITY INVOKER (true), DEFINER (false)
    pub invoker: Option<bool>,
}

/// CREATE PROCEDURE, CREATE FUNCTION
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CreateRoutine<'a> {
    /// Procedure or function.
    pub kind: ProgramKind,
    /// DEFINER
    pub definer: Option<Account<'a>>,
    /// IF NOT EXISTS
    pub if_not_exists: bool,
    /// Its name.
    pub name: TableName<'a>,
    /// The parameters.
    pub parameters: &'a [Parameter<'a>],
    /// The text between the parentheses.
    pub parameters_text: &'a [u8],
    /// RETURNS of a function.
    pub returns: Option<DataType<'a>>,
    /// Characteristics.
    pub characteristics: Characteristics<'a>,
    /// The body.
    pub body: Body<'a>,
}

/// ALTER PROCEDURE, ALTER FUNCTION
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AlterRoutine<'a> {
    /// Procedure or function.
    pub kind: ProgramKind,
    /// Its name.
    pub name: TableName<'a>,
    /// The changes.
    pub characteristics: Characteristics<'a>,
}

/// SIGNAL, RESIGNAL
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Signal<'a> {
    /// RESIGNAL
    pub again: bool,
    /// The condition; always given for SIGNAL.
    pub condition: Option<ConditionValue<'a>>,
    /// SET, by the names of the items in upper case.
    pub items: &'a [(&'a str, ProgramExpr<'a>)],
}

/// The target of an assignment of GET DIAGNOSTICS, with the item's name in upper case.
pub type DiagnosticsItem<'a> = (IntoVar<'a>, &'a str);

/// GET DIAGNOSTICS
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GetDiagnostics<'a> {
    /// STACKED; otherwise CURRENT.
    pub stacked: bool,
    /// The number of the condition; `None`: items of the statement.
    pub condition: Option<ProgramExpr<'a>>,
    /// The assignments.
    pub items: &'a [DiagnosticsItem<'a>],
}

/// The change of a row for which a trigger fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerEvent {
    /// INSERT
    Insert,
    /// UPDATE
    Update,
    /// DELETE
    Delete,
}

/// CREATE TRIGGER
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CreateTrigger<'a> {
    /// DEFINER
    pub definer: Option<Account<'a>>,
    /// IF NOT EXISTS
    pub if_not_exists: bool,
    /// Its name.
    pub name: TableName<'a>,
    /// AFTER; otherwise BEFORE.
    pub after: bool,
    /// The event.
    pub event: TriggerEvent,
    /// The table.
    pub table: TableName<'a>,
    /// FOLLOWS or PRECEDES another trigger.
    pub order: Option<TriggerOrder<'a>>,
    /// Its body.
    pub body: Body<'a>,
}

/// The place of a trigger beside another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerOrder<'a> {
    /// FOLLOWS
    Follows(Ident<'a>),
    /// PRECEDES
    Precedes(Ident<'a>),
}
