//! CREATE, ALTER and DROP VIEW.

use super::{Outcome, SqlSession};
use porpoise_access::Privileges;
use porpoise_rows::catalog::{CheckOption, View};
use porpoise_rows::ddl::ViewMode;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::LexMode;
use porpoise_sql_parser::ast::{CreateView, DropTables, ExprKind, QueryBody, Select, SelectItem};
use porpoise_sql_parser::print::{self, Names};
use porpoise_sql_plan::plan::QueryPlan;
use porpoise_sql_plan::plan::select::{NestedReads, PlanCx, plan_query};
use porpoise_sql_plan::plan::views;
use std::collections::HashMap;

impl SqlSession {
    /// CREATE [OR REPLACE] VIEW and ALTER VIEW.
    pub(super) fn create_view(&mut self, create: &CreateView<'_>, text: &[u8]) -> Result<Outcome> {
        let position = self.begin_definition()?;
        let (database, name) = self.cx.qualified(&create.name)?;
        let view = self.view_definition(create, database, name, text)?;
        let mode = match (create.alter, create.or_replace) {
            (true, _) => ViewMode::Alter,
            (_, true) => ViewMode::Replace,
            _ => ViewMode::Create,
        };
        self.check_view(&view)?;
        let db = self.cx.server.db.clone();
        let done = db.create_view(&self.ddl_cx(), &view, mode)?;
        Ok(Outcome {
            position: done.position.max(position),
            ..Outcome::default()
        })
    }

    /// The definition of the view for the catalog.
    fn view_definition(
        &self,
        create: &CreateView<'_>,
        database: String,
        name: String,
        text: &[u8],
    ) -> Result<View> {
        if create.query.into.is_some() {
            let text = "View's SELECT contains a 'INTO' clause";
            return Err(SqlError::new(1350, "HY000", text));
        }
        let catalog = self.cx.catalog();
        let env = self.cx.bind_env(Vec::new());
        let reads = NestedReads::default();
        let source = std::str::from_utf8(text).unwrap_or_default();
        let cx = PlanCx::new(&catalog, &env, &*self.cx, source, &reads);
        self.cx.planning.volatile.set(false);
        self.cx.planning.named_functions.replace(Some(Vec::new()));
        reads.names.replace(Some(Names {
            text: source.to_owned(),
            database: database.clone(),
            ..Names::default()
        }));
        let plan = plan_query(create.query, &cx);
        let mut resolved = reads.names.take().unwrap_or_default();
        let functions = self.cx.planning.named_functions.take();
        let plan = plan.map_err(|e| self.cx.hide_unauthorized(e, &reads.uses.names()))?;
        self.check_no_variables(&plan)?;
        self.check_sources(&plan, &reads)?;
        for (database, name) in functions.iter().flatten() {
            let function = (true, database.as_str(), name.as_str());
            self.cx
                .need_routine(Privileges::EXECUTE, "execute", function)?;
        }
        let (columns, names) = column_names(create, &plan, &resolved);
        resolved.items = names;
        let query = print::resolved_query(create.query, &resolved, LexMode::default());
        let names = if columns.is_empty() {
            &resolved.items
        } else {
            &columns
        };
        check_columns(names, plan.columns.len())?;
        // ALTER VIEW keeps the definer, algorithm and SQL SECURITY if it does not give them.
        let old = catalog.view(&database, &name).filter(|_| create.alter);
        let definer = match old {
            Some(old) if create.definer.is_none() => old.definer.clone(),
            _ => self.definer_of(create)?,
        };
        let algorithm = create.algorithm.map(|a| a.name.to_ascii_uppercase());
        let algorithm = algorithm.or_else(|| old.map(|old| old.algorithm.clone()));
        let invoker = create.invoker.or_else(|| old.map(|old| old.invoker));
        let collation = self.cx.settings.collation;
        Ok(View {
            query: String::from_utf8_lossy(&query).into_owned(),
            columns,
            algorithm: algorithm.unwrap_or_else(|| "UNDEFINED".to_owned()),
            check: match create.check_option {
                None => CheckOption::None,
                Some(true) => CheckOption::Cascaded,
                Some(false) => CheckOption::Local,
            },
            definer,
            invoker: invoker.unwrap_or(false),
            charset: collation.charset().name().to_owned(),
            collation: collation.name().to_owned(),
            database,
            name,
        })
    }

    /// Error 1352 for temporary tables, 1142 and 1143 for tables and columns that the session's
    /// account may not read.
    fn check_sources(&self, plan: &QueryPlan, reads: &NestedReads) -> Result<()> {
        let inner = reads.tables.borrow().clone();
        let read = plan.tables().into_iter().map(|(t, _)| t).chain(inner);
        for table in read {
            if self.cx.temporary.contains_id(table.id) {
                let text = format!("View's SELECT refers to a temporary table '{}'", table.name);
                return Err(SqlError::new(1352, "HY000", text));
            }
        }
        self.cx.check_named(&reads.uses.take())
    }

    /// The DEFINER; the session's own account by default.
    fn definer_of(&self, create: &CreateView<'_>) -> Result<String> {
        let Some(account) = &create.definer else {
            return Ok(self.cx.client.account.clone());
        };
        let id = self.cx.auth_id(account);
        let definer = format!("{}@{}", id.user, id.host);
        if definer != self.cx.client.account {
            let sufficient = Privileges::SET_ANY_DEFINER.with(Privileges::SET_USER_ID);
            if !self.cx.rights().global().intersects(sufficient) {
                self.cx
                    .need_global(sufficient, "SUPER or SET_ANY_DEFINER")?;
            }
        }
        Ok(definer)
    }

    /// Error 1351: a view must not use variables of a session.
    fn check_no_variables(&self, plan: &QueryPlan) -> Result<()> {
        let mut found = self.cx.planning.volatile.get();
        plan.expressions(&mut |e| {
            e.walk(&mut |e| {
                use porpoise_sql_expr::expr::ExprKind as E;
                found |= matches!(
                    e.kind,
                    E::UserVariable(_) | E::AssignVariable(..) | E::Param(_)
                );
            });
        });
        if found {
            let text = "View's SELECT contains a variable or parameter";
            Err(SqlError::new(1351, "HY000", text))
        } else {
            Ok(())
        }
    }

    /// Error 1368 for CHECK OPTION on a view that is not updatable; 1462 and 1356 for a view that
    /// could not be read.
    fn check_view(&self, view: &View) -> Result<()> {
        let described = views::describe(&self.cx.server.db.catalog(), view, &*self.cx)?;
        if view.check != CheckOption::None && !described.updatable {
            let text = format!(
                "CHECK OPTION on non-updatable view '{}.{}'",
                view.database, view.name
            );
            return Err(SqlError::new(1368, "HY000", text));
        }
        if view.algorithm == "MERGE" && !described.updatable {
            self.cx.env.warn(porpoise_types::Warning {
                level: porpoise_types::Level::Warning,
                code: 1354,
                message: "View merge algorithm can't be used here for now (assumed undefined \
                          algorithm)"
                    .to_owned(),
            });
        }
        Ok(())
    }

    /// DROP VIEW.
    pub(super) fn drop_views(&mut self, drop: &DropTables<'_>) -> Result<Outcome> {
        let position = self.begin_definition()?;
        let names = drop.names.iter().map(|n| self.cx.qualified(n));
        let names: Vec<(String, String)> = names.collect::<Result<_>>()?;
        let db = self.cx.server.db.clone();
        let (done, missing) = db.drop_views(&self.ddl_cx(), &names, drop.if_exists)?;
        for name in missing {
            self.cx.note(1051, format!("Unknown table '{name}'"));
        }
        Ok(Outcome {
            position: done.position.max(position),
            ..Outcome::default()
        })
    }
}

/// Errors 1353 and 1060: wrong number of column names, or a duplicate.
fn check_columns(names: &[String], width: usize) -> Result<()> {
    if names.len() != width {
        let text = "In definition of view, derived table or common table expression, SELECT list \
                    and column names list have different column counts";
        return Err(SqlError::new(1353, "HY000", text));
    }
    for (at, name) in names.iter().enumerate() {
        let mut before = names.iter().take(at);
        if before.any(|n| n.eq_ignore_ascii_case(name)) {
            let text = format!("Duplicate column name '{name}'");
            return Err(SqlError::new(1060, "42S21", text));
        }
    }
    Ok(())
}

/// The names in the list of columns, and those of the columns of the query. The list is empty if the
/// query's names are the view's.
fn column_names(
    create: &CreateView<'_>,
    plan: &QueryPlan,
    resolved: &Names,
) -> (Vec<String>, Vec<String>) {
    let mut columns: Vec<String> = create.columns.iter().map(|c| c.name.to_owned()).collect();
    let mut names: Vec<String> = plan.columns.iter().map(|c| c.name.clone()).collect();
    match first_select(&create.query.body) {
        Some(select) if columns.is_empty() => {
            let computed = computed_items(select, resolved);
            make_valid(&mut names, &computed);
            make_unique(&mut names, &computed);
        }
        Some(_) => {}
        None if columns.is_empty() => columns.clone_from(&names),
        None => {}
    }
    (columns, names)
}

/// The first SELECT of a query, whose items are the columns; `None` for VALUES and TABLE.
fn first_select<'q, 'a>(body: &'q QueryBody<'a>) -> Option<&'q Select<'a>> {
    match body {
        QueryBody::Select(select) => Some(select),
        QueryBody::Nested(query) => first_select(&query.body),
        QueryBody::Set(chain) => first_select(&chain.first),
        QueryBody::Table(_) | QueryBody::Values(_) => None,
    }
}

/// For each column of a SELECT, whether the column is a computed item that is named by its text.
fn computed_items(select: &Select<'_>, names: &Names) -> Vec<bool> {
    let mut computed = Vec::with_capacity(select.items.len());
    for item in select.items {
        let star = match item {
            SelectItem::Wildcard => names.stars.get(&select.span.start),
            SelectItem::TableWildcard(name) => names.stars.get(&name.name.span.start),
            SelectItem::Expr { expr, alias, .. } => {
                computed.push(alias.is_none() && !matches!(expr.kind, ExprKind::Column(_)));
                continue;
            }
        };
        computed.extend(star.into_iter().flatten().map(|_| false));
    }
    computed
}

/// Replaces names of computed items that no column may have.
fn make_valid(names: &mut [String], computed: &[bool]) {
    for (at, (name, computed)) in names.iter_mut().zip(computed).enumerate() {
        let invalid = name.is_empty() || name.ends_with(' ') || name.chars().count() > MAX_NAME;
        if *computed && invalid {
            *name = format!("Name_exp_{}", at + 1);
        }
    }
}

/// Maximum length of a column's name, in characters.
const MAX_NAME: usize = 64;

/// Renames computed items that have the same name as another item: of two, the later one if it is
/// computed, otherwise the earlier one.
fn make_unique(names: &mut [String], computed: &[bool]) {
    // Positions by name in lower case, and the number of names tried for each.
    let mut owners: HashMap<String, usize> = HashMap::new();
    let mut attempts: HashMap<String, usize> = HashMap::new();
    for at in 0..names.len() {
        let Some(name) = names.get(at).cloned() else {
            continue;
        };
        let key = name.to_ascii_lowercase();
        let Some(before) = owners.insert(key.clone(), at) else {
            continue;
        };
        let renamed = [at, before]
            .into_iter()
            .find(|at| computed.get(*at) == Some(&true));
        let Some(renamed) = renamed else {
            continue;
        };
        let unique = unique_name(&name, &owners, attempts.entry(key.clone()).or_default());
        if renamed == at {
            owners.insert(key, before);
        }
        owners.insert(unique.to_ascii_lowercase(), renamed);
        if let Some(place) = names.get_mut(renamed) {
            *place = unique;
        }
    }
}

/// A name made from `name` that is none of `taken`; `attempt` is the number of names tried before.
fn unique_name(name: &str, taken: &HashMap<String, usize>, attempt: &mut usize) -> String {
    loop {
        let unique = match *attempt {
            0 => format!("Name_exp_{name}"),
            n => format!("Name_exp_{n}_{name}"),
        };
        *attempt += 1;
        let unique: String = unique.chars().take(MAX_NAME).collect();
        if !taken.contains_key(&unique.to_ascii_lowercase()) {
            return unique;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_of_computed_items_become_unique_in_linear_time() {
        let mut names: Vec<String> = ["a", "1", "A", "1", "Name_exp_1", "1"]
            .map(str::to_owned)
            .to_vec();
        make_unique(&mut names, &[false, true, true, true, false, true]);
        let expected = [
            "a",
            "1",
            "Name_exp_A",
            "Name_exp_Name_exp_1",
            "Name_exp_1",
            "Name_exp_1_1",
        ];
        assert_eq!(names, expected);
        let mut many = vec!["x".to_owned(); 4096];
        make_unique(&mut many, &[true; 4096]);
        let different: std::collections::HashSet<_> = many.iter().collect();
        assert_eq!(different.len(), many.len());
    }
}
