//! From the syntax tree of a body to instructions.
//!
//! Control structures become jumps. Labels, conditions, cursors and handlers are resolved here;
//! variables were resolved by the parser.

use super::condition::HandledCondition;
use super::program::{
    CallInstruction, Cursor, Handler, Instruction, PlanSlot, Program, RaisedCondition, RowVariable,
    Scope, Source, Target, sql_type,
};
use super::restrict;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{
    Assign, Block, Body, Call, CaseStatement, ConditionValue, Declaration, ExprKind,
    GetDiagnostics, Ident, IfStatement, Into, IntoVar, Loop, LoopKind, ParameterMode, ProgramExpr,
    ProgramKind, ProgramSql, ProgramStatement, ProgramStatementKind as Step, SetItem, Signal,
    Statement, Variable, VariableKind, VariableUse,
};
use porpoise_sql_parser::token::Span;
use porpoise_sql_plan::bind::nodes::variable_name;
use porpoise_types::ColumnType;
use std::sync::Arc;

/// Context of compilation besides the body.
pub(crate) struct CompileCx<'c> {
    /// Kind.
    pub kind: ProgramKind,
    /// `database.name`.
    pub name: String,
    /// Directions of the parameters.
    pub parameters: &'c [ParameterMode],
    /// The type of a function's result.
    pub returns: Option<ColumnType>,
    /// The type of a variable: of a parameter, a local variable, or a row variable.
    pub type_of: &'c dyn Fn(&Variable<'_>) -> Result<ColumnType>,
    /// Whether NEW may be assigned: a BEFORE trigger.
    pub assigns_new: bool,
}

/// A label that LEAVE and ITERATE may name.
struct Label {
    name: String,
    /// The first instruction of a loop; `None` for a block.
    start: Option<usize>,
    /// Jumps to its end.
    leaves: Vec<usize>,
}

struct Compiler<'b> {
    /// The text in which spans are positions.
    text: &'b [u8],
    cx: &'b CompileCx<'b>,
    program: Program,
    /// Scope of the instructions to come.
    scope: u32,
    /// The handler whose body is compiled.
    handler: Option<u32>,
    labels: Vec<Label>,
    /// Number of labels that are outside of the handler whose body is compiled.
    hidden_labels: usize,
    conditions: Vec<(String, HandledCondition)>,
    cursors: Vec<(String, u32)>,
    /// Whether there is a RETURN.
    returns: bool,
}

/// Compiles a body whose spans are positions in `text`.
///
/// # Errors
/// MySQL's errors for labels, declarations and statements that are not allowed.
pub(crate) fn compile(body: &Body<'_>, text: &[u8], cx: &CompileCx<'_>) -> Result<Program> {
    let mut compiler = Compiler {
        text,
        cx,
        program: Program {
            kind: cx.kind,
            name: cx.name.clone(),
            code: Vec::new(),
            scope_of: Vec::new(),
            scopes: vec![Scope::default()],
            handlers: Vec::new(),
            cursors: Vec::new(),
            variables: Vec::new(),
            parameters: cx.parameters.to_vec(),
            returns: cx.returns.clone(),
            row_variables: Vec::new(),
            trigger_table: None,
        },
        scope: 0,
        handler: None,
        labels: Vec::new(),
        hidden_labels: 0,
        conditions: Vec::new(),
        cursors: Vec::new(),
        returns: false,
    };
    compiler.variables(body.variables)?;
    compiler.statement(&body.root)?;
    if cx.kind == ProgramKind::Function && !compiler.returns {
        let text = format!("No RETURN found in FUNCTION {}", cx.name);
        return Err(SqlError::new(1320, "42000", text));
    }
    Ok(compiler.program)
}

/// Whether two names of variables, labels, conditions or cursors are the same.
fn same(a: &str, b: &str) -> bool {
    a == b || a.to_lowercase() == b.to_lowercase()
}

fn syntax_error(code: u16, text: String) -> SqlError {
    SqlError::new(code, "42000", text)
}

impl<'b> Compiler<'b> {
    fn variables(&mut self, variables: &[Variable<'_>]) -> Result<()> {
        let parameters = variables.get(..self.cx.parameters.len());
        let parameters = parameters.unwrap_or_default();
        for (at, parameter) in parameters.iter().enumerate() {
            let mut before = parameters.iter().take(at);
            if before.any(|p| same(p.name.name, parameter.name.name)) {
                let text = format!("Duplicate parameter: {}", parameter.name.name);
                return Err(syntax_error(1330, text));
            }
        }
        for (slot, variable) in variables.iter().enumerate() {
            let ty = (self.cx.type_of)(variable)?;
            let name = variable.name.name.to_owned();
            let is_new = variable.kind == VariableKind::New;
            if is_new || variable.kind == VariableKind::Old {
                self.program.row_variables.push(RowVariable {
                    slot: slot as u32,
                    is_new,
                    column: name.clone(),
                    is_assignable: is_new && self.cx.assigns_new,
                    assigned: false,
                });
            }
            self.program.variables.push((name, ty));
        }
        Ok(())
    }

    fn here(&self) -> usize {
        self.program.code.len()
    }

    fn emit(&mut self, instruction: Instruction) -> usize {
        let at = self.here();
        self.program.code.push(instruction);
        self.program.scope_of.push(self.scope);
        at
    }

    /// Sets the target of a jump to the next instruction.
    fn land(&mut self, jump: usize) {
        let here = self.here();
        let instruction = self.program.code.get_mut(jump);
        if let Some(target) = instruction.and_then(Instruction::target_mut) {
            *target = here;
        }
    }

    /// A text made of pieces of the body, each with the uses of variables in it.
    fn source(&self, pieces: &[(&str, Span, &[VariableUse])], last: &str) -> Source {
        let mut text = Vec::new();
        let (mut places, mut slots, mut types) = (Vec::new(), Vec::new(), Vec::new());
        for (prefix, span, uses) in pieces {
            text.extend_from_slice(prefix.as_bytes());
            let offset = text.len() as u32;
            text.extend_from_slice(span.slice(self.text));
            for used in *uses {
                let moved = |at: u32| at.saturating_sub(span.start) + offset;
                places.push(Span::new(moved(used.span.start), moved(used.span.end)));
                slots.push(used.slot);
                let variable = self.program.variables.get(used.slot as usize);
                types.extend(variable.map(|(_, ty)| sql_type(ty)));
            }
        }
        text.extend_from_slice(last.as_bytes());
        Source {
            text: Arc::from(text),
            places: places.into(),
            slots: slots.into(),
            types: types.into(),
            plan: PlanSlot::default(),
        }
    }

    fn expr(&self, e: &ProgramExpr<'_>) -> Source {
        self.source(&[("", e.span, e.uses)], "")
    }

    fn sql(&self, sql: &ProgramSql<'_>) -> Source {
        self.source(&[("", sql.span, sql.uses)], "")
    }

    fn slot_target(&mut self, slot: u32) -> Result<Target> {
        let rows = &mut self.program.row_variables;
        if let Some(row) = rows.iter_mut().find(|r| r.slot == slot) {
            if !row.is_new || !self.cx.assigns_new {
                let (which, when) = match (row.is_new, self.cx.assigns_new) {
                    (true, _) => ("NEW", "after "),
                    (false, true) => ("OLD", ""),
                    (false, false) => ("OLD", "after "),
                };
                let text = format!("Updating of {which} row is not allowed in {when}trigger");
                return Err(SqlError::new(1362, "HY000", text));
            }
            row.assigned = true;
        }
        Ok(Target::Slot(slot))
    }

    fn target(&mut self, variable: &IntoVar<'_>) -> Result<Target> {
        match variable {
            IntoVar::User(name) => Ok(Target::User(variable_name(name))),
            IntoVar::Local {
                slot: Some(slot), ..
            } => self.slot_target(*slot),
            IntoVar::Local { name, slot: None } => {
                let text = format!("Undeclared variable: {}", name.name);
                Err(syntax_error(1327, text))
            }
        }
    }

    fn targets(&mut self, list: &[IntoVar<'_>]) -> Result<Box<[Target]>> {
        list.iter().map(|v| self.target(v)).collect()
    }

    fn statements(&mut self, list: &[ProgramStatement<'_>]) -> Result<()> {
        list.iter().try_for_each(|s| self.statement(s))
    }

    fn statement(&mut self, statement: &ProgramStatement<'_>) -> Result<()> {
        porpoise_sql_plan::bind::check_stack()?;
        match &statement.kind {
            Step::Block(block) => self.block(block),
            Step::If(statement) => self.if_statement(statement),
            Step::Case(statement) => self.case_statement(statement),
            Step::Loop(statement) => self.loop_statement(statement),
            Step::Leave(label) => {
                let at = self.find_label(label, false)?;
                let jump = self.emit(Instruction::Jump(0));
                if let Some(label) = self.labels.get_mut(at) {
                    label.leaves.push(jump);
                }
                Ok(())
            }
            Step::Iterate(label) => {
                let at = self.find_label(label, true)?;
                let start = self.labels.get(at).and_then(|l| l.start).unwrap_or(0);
                self.emit(Instruction::Jump(start));
                Ok(())
            }
            Step::Return(value) => {
                if self.cx.kind != ProgramKind::Function {
                    let text = "RETURN is only allowed in a FUNCTION".to_owned();
                    return Err(syntax_error(1313, text));
                }
                self.returns = true;
                let value = self.expr(value);
                self.emit(Instruction::Return(value));
                Ok(())
            }
            Step::Open(name) => {
                let cursor = self.find_cursor(name)?;
                self.emit(Instruction::Open(cursor));
                Ok(())
            }
            Step::Close(name) => {
                let cursor = self.find_cursor(name)?;
                self.emit(Instruction::Close(cursor));
                Ok(())
            }
            Step::Fetch { cursor, into } => {
                let cursor = self.find_cursor(cursor)?;
                let into = self.targets(into)?;
                self.emit(Instruction::Fetch(cursor, into));
                Ok(())
            }
            Step::Set(items) => items.iter().try_for_each(|item| self.assign(item)),
            Step::Sql(sql) => self.sql_statement(sql),
        }
    }

    fn assign(&mut self, item: &Assign<'_>) -> Result<()> {
        match item {
            Assign::Local(slot, value) => {
                self.slot_target(*slot)?;
                let is_default = matches!(value.expr.kind, ExprKind::Default);
                let value = (!is_default).then(|| self.expr(value));
                self.emit(Instruction::Assign(*slot, value));
            }
            Assign::User(name, value) => {
                let value = self.expr(value);
                self.emit(Instruction::AssignUser(variable_name(name), value));
            }
            Assign::Other { item, uses, span } => {
                if let Some(error) = restrict::assignment_refusal(item, self.cx.kind) {
                    return Err(error);
                }
                if let SetItem::System {
                    component: None,
                    name,
                    ..
                } = item
                {
                    crate::vars::entry(name.name)?;
                }
                let source = self.source(&[("SET ", *span, uses)], "");
                self.emit(Instruction::Sql {
                    source,
                    into: None,
                    is_diagnostic: false,
                });
            }
        }
        Ok(())
    }

    fn sql_statement(&mut self, sql: &ProgramSql<'_>) -> Result<()> {
        if let Some(error) = restrict::refusal(&sql.statement, self.cx.kind) {
            return Err(error);
        }
        if matches!(sql.statement, Statement::CreateView(_)) && !sql.uses.is_empty() {
            let text = "View's SELECT contains a variable or parameter";
            return Err(SqlError::new(1351, "HY000", text));
        }
        let into = match &sql.statement {
            Statement::Query(query) => match query.into {
                Some(Into::Vars(list)) => Some(self.targets(list)?),
                _ => None,
            },
            Statement::Call(call) => return self.call(call, sql),
            Statement::Signal(signal) => return self.signal(signal),
            Statement::GetDiagnostics(get) => return self.get_diagnostics(get),
            _ => None,
        };
        let is_diagnostic = matches!(sql.statement, Statement::Show(_));
        let source = self.sql(sql);
        self.emit(Instruction::Sql {
            source,
            into,
            is_diagnostic,
        });
        Ok(())
    }

    fn call(&mut self, call: &Call<'_>, sql: &ProgramSql<'_>) -> Result<()> {
        let mut args = Vec::with_capacity(call.args.len());
        for arg in call.args {
            let inside =
                |u: &&VariableUse| u.span.start >= arg.span.start && u.span.end <= arg.span.end;
            let uses: Vec<VariableUse> = sql.uses.iter().filter(inside).copied().collect();
            let target = match &arg.kind {
                ExprKind::UserVar(name) => Some(Target::User(variable_name(name))),
                ExprKind::Param(_) => uses.first().map(|u| Target::Slot(u.slot)),
                _ => None,
            };
            args.push((self.source(&[("", arg.span, &uses)], ""), target));
        }
        self.emit(Instruction::Call(Box::new(CallInstruction {
            database: call.name.schema.map(|s| s.name.to_owned()),
            name: call.name.name.name.to_owned(),
            args: args.into(),
            resolved: PlanSlot::default(),
        })));
        Ok(())
    }

    fn signal(&mut self, signal: &Signal<'_>) -> Result<()> {
        let condition = match &signal.condition {
            None => None,
            Some(value) => Some(match self.handled(value)? {
                HandledCondition::SqlState(sqlstate) => RaisedCondition {
                    sqlstate,
                    code: None,
                },
                _ => {
                    let text = "SIGNAL/RESIGNAL can only use a CONDITION defined with SQLSTATE";
                    return Err(SqlError::new(1646, "HY000", text));
                }
            }),
        };
        let mut items: Vec<(String, Source)> = Vec::new();
        for (name, value) in signal.items {
            if items.iter().any(|(n, _)| n == name) {
                let text = format!("Duplicate condition information item '{name}'");
                return Err(syntax_error(1641, text));
            }
            items.push(((*name).to_owned(), self.expr(value)));
        }
        self.emit(Instruction::Signal {
            again: signal.again,
            condition,
            items: items.into(),
        });
        Ok(())
    }

    fn get_diagnostics(&mut self, get: &GetDiagnostics<'_>) -> Result<()> {
        let mut items = Vec::with_capacity(get.items.len());
        for (target, name) in get.items {
            items.push((self.target(target)?, (*name).to_owned()));
        }
        let condition = get.condition.as_ref().map(|e| self.expr(e));
        self.emit(Instruction::GetDiagnostics {
            stacked: get.stacked,
            condition,
            items: items.into(),
        });
        Ok(())
    }

    fn if_statement(&mut self, statement: &IfStatement<'_>) -> Result<()> {
        let mut tests = Vec::new();
        let mut ends = Vec::new();
        for (condition, list) in statement.arms {
            let condition = self.expr(condition);
            let test = self.jump_unless(condition);
            tests.push(test);
            self.statements(list)?;
            ends.push(self.emit(Instruction::Jump(0)));
            self.land(test);
        }
        if let Some(list) = statement.otherwise {
            self.statements(list)?;
        }
        self.finish_tests(&tests, &ends);
        Ok(())
    }

    fn jump_unless(&mut self, condition: Source) -> usize {
        self.emit(Instruction::JumpUnless {
            condition,
            target: 0,
            resume: 0,
        })
    }

    /// Ends IF or CASE: the jumps to its end, and where errors of its conditions continue.
    fn finish_tests(&mut self, tests: &[usize], ends: &[usize]) {
        let here = self.here();
        for at in tests {
            let instruction = self.program.code.get_mut(*at);
            if let Some(resume) = instruction.and_then(Instruction::resume_mut) {
                *resume = here;
            }
        }
        ends.iter().for_each(|jump| self.land(*jump));
    }

    fn case_statement(&mut self, statement: &CaseStatement<'_>) -> Result<()> {
        let mut tests = Vec::new();
        let mut ends = Vec::new();
        let operand = statement.operand.as_ref().map(|operand| {
            let operand = self.expr(operand);
            let slot = self.program.variables.len() as u32;
            let unnamed = (String::new(), ColumnType::null());
            self.program.variables.push(unnamed);
            tests.push(self.emit(Instruction::CaseOperand {
                slot,
                operand,
                resume: 0,
            }));
            slot
        });
        for (value, list) in statement.arms {
            let value = self.expr(value);
            let test = match operand {
                Some(slot) => self.emit(Instruction::JumpUnlessEqual {
                    slot,
                    value,
                    target: 0,
                    resume: 0,
                }),
                None => self.jump_unless(value),
            };
            tests.push(test);
            self.statements(list)?;
            ends.push(self.emit(Instruction::Jump(0)));
            self.land(test);
        }
        match statement.otherwise {
            Some(list) => self.statements(list)?,
            None => {
                self.emit(Instruction::CaseNotFound);
            }
        }
        self.finish_tests(&tests, &ends);
        Ok(())
    }

    fn loop_statement(&mut self, statement: &Loop<'_>) -> Result<()> {
        let start = self.here();
        let at = self.begin_label(statement.label.as_ref(), Some(start))?;
        match &statement.kind {
            LoopKind::Forever => {
                self.statements(statement.statements)?;
                self.emit(Instruction::Jump(start));
            }
            LoopKind::While(condition) => {
                let condition = self.expr(condition);
                let test = self.jump_unless(condition);
                self.statements(statement.statements)?;
                self.emit(Instruction::Jump(start));
                self.land(test);
                self.finish_tests(&[test], &[]);
            }
            LoopKind::Until(condition) => {
                self.statements(statement.statements)?;
                let condition = self.expr(condition);
                let test = self.jump_unless(condition);
                let instruction = self.program.code.get_mut(test);
                if let Some(target) = instruction.and_then(Instruction::target_mut) {
                    *target = start;
                }
                self.finish_tests(&[test], &[]);
            }
        }
        self.end_label(at, statement.label.as_ref(), statement.end_label.as_ref())
    }

    /// Opens a label, and returns its number. A loop or block without one has an empty name.
    fn begin_label(&mut self, label: Option<&Ident<'_>>, start: Option<usize>) -> Result<usize> {
        let name = label.map_or("", |l| l.name).to_owned();
        let visible = self.labels.get(self.hidden_labels..).unwrap_or_default();
        if label.is_some() && visible.iter().any(|l| same(&l.name, &name)) {
            return Err(syntax_error(1309, format!("Redefining label {name}")));
        }
        self.labels.push(Label {
            name,
            start,
            leaves: Vec::new(),
        });
        Ok(self.labels.len() - 1)
    }

    fn end_label(
        &mut self,
        at: usize,
        label: Option<&Ident<'_>>,
        end: Option<&Ident<'_>>,
    ) -> Result<()> {
        if let Some(end) = end
            && !label.is_some_and(|l| same(l.name, end.name))
        {
            let text = format!("End-label {} without match", end.name);
            return Err(syntax_error(1310, text));
        }
        for label in self.labels.split_off(at) {
            label.leaves.iter().for_each(|jump| self.land(*jump));
        }
        Ok(())
    }

    fn find_label(&self, name: &Ident<'_>, iterate: bool) -> Result<usize> {
        let fits = |l: &Label| same(&l.name, name.name) && (!iterate || l.start.is_some());
        let found = self.labels.iter().rposition(fits);
        found.filter(|at| *at >= self.hidden_labels).ok_or_else(|| {
            let what = if iterate { "ITERATE" } else { "LEAVE" };
            let text = format!("{what} with no matching label: {}", name.name);
            syntax_error(1308, text)
        })
    }

    fn find_cursor(&self, name: &Ident<'_>) -> Result<u32> {
        let found = self.cursors.iter().rev().find(|(n, _)| same(n, name.name));
        let missing = || syntax_error(1324, format!("Undefined CURSOR: {}", name.name));
        found.map(|(_, cursor)| *cursor).ok_or_else(missing)
    }

    fn block(&mut self, block: &Block<'_>) -> Result<()> {
        let at = self.begin_label(block.label.as_ref(), None)?;
        let (conditions, cursors) = (self.conditions.len(), self.cursors.len());
        let outer = self.scope;
        let first_cursor = self.program.cursors.len() as u32;
        let handlers = self.declarations(block.declarations, (conditions, cursors))?;
        if !handlers.is_empty() {
            self.scope = self.program.scopes.len() as u32;
            self.program.scopes.push(Scope {
                parent: Some(outer),
                handlers: handlers.clone(),
            });
        }
        self.statements(block.statements)?;
        self.scope = outer;
        self.conditions.truncate(conditions);
        self.cursors.truncate(cursors);
        self.end_label(at, block.label.as_ref(), block.end_label.as_ref())?;
        let here = self.here();
        for handler in handlers {
            if let Some(handler) = self.program.handlers.get_mut(handler as usize)
                && let Some(exit) = &mut handler.exit
            {
                *exit = here;
            }
        }
        let last_cursor = self.program.cursors.len() as u32;
        if last_cursor > first_cursor {
            self.emit(Instruction::CloseFrom(first_cursor, last_cursor));
        }
        Ok(())
    }

    /// Compiles the declarations of a block; returns its handlers.
    fn declarations(
        &mut self,
        declarations: &[Declaration<'_>],
        (conditions, cursors): (usize, usize),
    ) -> Result<Vec<u32>> {
        let mut handlers = Vec::new();
        let mut names: Vec<String> = Vec::new();
        for declaration in declarations {
            let late = self.cursors.len() > cursors || !handlers.is_empty();
            match declaration {
                Declaration::Variables { .. } | Declaration::Condition { .. } if late => {
                    let text = "Variable or condition declaration after cursor or handler \
                                declaration";
                    return Err(syntax_error(1337, text.to_owned()));
                }
                Declaration::Cursor { .. } if !handlers.is_empty() => {
                    let text = "Cursor declaration after handler declaration".to_owned();
                    return Err(syntax_error(1338, text));
                }
                Declaration::Variables { slots, default } => {
                    self.declare_variables(slots, default.as_ref(), &mut names)?;
                }
                Declaration::Condition { name, value } => {
                    let declared = self.conditions.get(conditions..).unwrap_or_default();
                    if declared.iter().any(|(n, _)| same(n, name.name)) {
                        let text = format!("Duplicate condition: {}", name.name);
                        return Err(syntax_error(1332, text));
                    }
                    let value = self.handled(value)?;
                    self.conditions.push((name.name.to_owned(), value));
                }
                Declaration::Cursor { name, query } => {
                    let declared = self.cursors.get(cursors..).unwrap_or_default();
                    self.declare_cursor(name, query, declared.len())?;
                }
                Declaration::Handler {
                    exit,
                    conditions,
                    statement,
                } => {
                    let handler = self.declare_handler(*exit, conditions, statement, &handlers)?;
                    handlers.push(handler);
                }
            }
        }
        Ok(handlers)
    }

    fn declare_variables(
        &mut self,
        slots: &[u32],
        default: Option<&ProgramExpr<'_>>,
        names: &mut Vec<String>,
    ) -> Result<()> {
        for slot in slots {
            let variable = self.program.variables.get(*slot as usize);
            let name = variable.map(|(name, _)| name.clone()).unwrap_or_default();
            if names.iter().any(|n| same(n, &name)) {
                return Err(syntax_error(1331, format!("Duplicate variable: {name}")));
            }
            names.push(name);
            let value = default.map(|e| self.expr(e));
            self.emit(Instruction::Assign(*slot, value));
        }
        Ok(())
    }

    fn declare_cursor(
        &mut self,
        name: &Ident<'_>,
        query: &ProgramSql<'_>,
        declared: usize,
    ) -> Result<()> {
        let mut own = self.cursors.iter().rev().take(declared);
        if own.any(|(n, _)| same(n, name.name)) {
            let text = format!("Duplicate cursor: {}", name.name);
            return Err(syntax_error(1333, text));
        }
        if let Statement::Query(query) = query.statement
            && query.into.is_some()
        {
            let text = "Cursor SELECT must not have INTO".to_owned();
            return Err(syntax_error(1323, text));
        }
        let number = self.program.cursors.len() as u32;
        let query = self.sql(query);
        self.program.cursors.push(Cursor { query });
        self.cursors.push((name.name.to_owned(), number));
        self.emit(Instruction::CloseFrom(number, number + 1));
        Ok(())
    }

    fn declare_handler(
        &mut self,
        exit: bool,
        values: &[ConditionValue<'_>],
        statement: &ProgramStatement<'_>,
        declared: &[u32],
    ) -> Result<u32> {
        let mut conditions: Vec<HandledCondition> = Vec::with_capacity(values.len());
        for value in values {
            let condition = self.handled(value)?;
            let before = declared
                .iter()
                .filter_map(|h| self.program.handlers.get(*h as usize))
                .any(|h| h.conditions.contains(&condition));
            if before || conditions.contains(&condition) {
                let text = "Duplicate handler declared in the same block".to_owned();
                return Err(syntax_error(1413, text));
            }
            conditions.push(condition);
        }
        let over = self.emit(Instruction::Jump(0));
        let number = self.program.handlers.len() as u32;
        self.program.handlers.push(Handler {
            exit: exit.then_some(0),
            conditions,
            start: self.here(),
            enclosing: self.handler,
        });
        let handler = self.handler.replace(number);
        let hidden = std::mem::replace(&mut self.hidden_labels, self.labels.len());
        self.statement(statement)?;
        self.hidden_labels = hidden;
        self.handler = handler;
        self.emit(Instruction::HandlerEnd(number));
        self.land(over);
        Ok(number)
    }

    /// A condition of DECLARE or SIGNAL, which is none of success.
    fn handled(&self, value: &ConditionValue<'_>) -> Result<HandledCondition> {
        Ok(match value {
            ConditionValue::SqlState(state) => HandledCondition::of_sqlstate(state)?,
            ConditionValue::Code(code) => {
                let valid = u16::try_from(*code).ok().filter(|code| *code > 0);
                HandledCondition::Code(valid.ok_or_else(|| {
                    let text = format!("Incorrect CONDITION value: '{code}'");
                    SqlError::new(1525, "HY000", text)
                })?)
            }
            ConditionValue::Name(name) => {
                let found = self.conditions.iter().rev();
                let found = found.clone().find(|(n, _)| same(n, name.name));
                let missing = || syntax_error(1319, format!("Undefined CONDITION: {}", name.name));
                found.map(|(_, c)| c.clone()).ok_or_else(missing)?
            }
            ConditionValue::SqlWarning => HandledCondition::Warning,
            ConditionValue::NotFound => HandledCondition::NotFound,
            ConditionValue::SqlException => HandledCondition::Exception,
        })
    }
}
