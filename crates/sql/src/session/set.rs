//! All forms of SET.
//!
//! All values of a statement are computed and checked before the first assignment, so that it sets
//! all variables or none.

use super::{Outcome, SqlSession};
use crate::definition::full_text;
use crate::server::SqlServer;
use crate::statements::slow_log;
use crate::vars::settings::{self, IsolationLevel};
use crate::vars::{self, Scope, VarValue, Variable, check};
use porpoise_access::persisted::{self, PersistedVariable};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::Deprecation;
use porpoise_sql_parser::ast::{Expr, ExprKind, Ident, SetItem, VarScope};
use porpoise_sql_plan::bind::expr::charset_named;
use porpoise_types::{Charset, Collation, ColumnType, TimeZone, Value, ValueRef};
use std::sync::Arc;

/// Capability bit of the handshake: column definitions are optional for the client.
const OPTIONAL_METADATA: u64 = 1 << 25;

/// The value of a system variable that an assignment sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Session,
    Global,
    /// The global value, now and after a restart.
    Persist,
    /// The global value after a restart.
    PersistOnly,
}

impl Target {
    fn is_session(self) -> bool {
        self == Target::Session
    }

    fn is_persisted(self) -> bool {
        matches!(self, Target::Persist | Target::PersistOnly)
    }
}

/// An assignment whose value has been checked.
enum Change {
    User(Arc<str>, Value, ColumnType),
    System {
        /// Position in the registry.
        at: usize,
        variable: &'static Variable,
        target: Target,
        value: VarValue,
    },
    /// SET NAMES.
    Names(Collation),
    /// SET CHARACTER SET.
    Charset(Charset),
}

/// Warning 3135.
const STRICT_MODES: &str = "'NO_ZERO_DATE', 'NO_ZERO_IN_DATE' and 'ERROR_FOR_DIVISION_BY_ZERO' sql modes should \
                            be used with strict mode. They will be merged with strict mode in a future release.";

/// Whether a value of sql_mode has a part of strict mode, but not all of it.
fn splits_strict_mode(modes: &str) -> bool {
    let has = |mode: &str| modes.split(',').any(|m| m == mode);
    let strict = has("STRICT_TRANS_TABLES") || has("STRICT_ALL_TABLES");
    let parts = [
        "NO_ZERO_IN_DATE",
        "NO_ZERO_DATE",
        "ERROR_FOR_DIVISION_BY_ZERO",
    ];
    let count = parts.iter().filter(|part| has(part)).count();
    (strict || count > 0) && (!strict || count < parts.len())
}

impl SqlSession {
    /// Executes SET.
    pub(crate) fn set(
        &mut self,
        items: &[SetItem<'_>],
        params: &[ValueRef<'_>],
        types: &[ColumnType],
    ) -> Result<Outcome> {
        let mut changes = Vec::with_capacity(items.len());
        for item in items {
            changes.push(self.check_item(item, params, types)?);
        }
        self.persist(&changes)?;
        let was_autocommit = self.cx.settings.autocommit;
        for change in changes {
            self.apply(change)?;
        }
        self.apply_settings()?;
        let mut outcome = Outcome::default();
        if !was_autocommit && self.cx.settings.autocommit {
            if let Err(error) = self.check_no_branch() {
                let (at, _) = vars::entry("autocommit")?;
                self.cx.values.set(at, VarValue::Bool(false));
                self.apply_settings()?;
                return Err(error);
            }
            outcome.position = self.commit()?;
        }
        Ok(outcome)
    }

    fn check_item(
        &mut self,
        item: &SetItem<'_>,
        params: &[ValueRef<'_>],
        types: &[ColumnType],
    ) -> Result<Change> {
        match item {
            SetItem::User(name, value) => {
                let (value, ty) = self.value_of(value, params, types)?;
                let name = String::from_utf8_lossy(name).to_lowercase();
                Ok(Change::User(Arc::from(name), value, ty))
            }
            SetItem::Names { charset, collation } => self
                .names_collation(*charset, *collation)
                .map(Change::Names),
            SetItem::Charset(Some(name)) => client_charset(name.name).map(Change::Charset),
            SetItem::Charset(None) => Ok(Change::Charset(self.cx.default_collation().charset())),
            SetItem::System {
                scope,
                component,
                name,
                value,
            } => {
                let full = match component {
                    Some(component) => format!("{}.{}", component.name, name.name),
                    None => name.name.to_owned(),
                };
                let (at, variable) = vars::entry(&full)?;
                // Checked first, because other errors reveal the variable or its value.
                if !matches!(scope, VarScope::Default | VarScope::Session) {
                    let shown = "SUPER or SYSTEM_VARIABLES_ADMIN";
                    self.cx
                        .need_global(porpoise_access::Privileges::SYSTEM_VARIABLES_ADMIN, shown)?;
                }
                let target = target_of(variable, *scope)?;
                let value = self.value_for(at, variable, target, value, params, types)?;
                self.check_semantics(variable, target, &value)?;
                self.warn_of_value(variable, &value);
                Ok(Change::System {
                    at,
                    variable,
                    target,
                    value,
                })
            }
        }
    }

    /// Checks that depend on the session or the engine.
    fn check_semantics(&self, variable: &Variable, target: Target, value: &VarValue) -> Result<()> {
        match (variable.name, value) {
            ("transaction_isolation", VarValue::Text(level)) => {
                self.check_isolation(IsolationLevel::named(level))
            }
            ("resultset_metadata", VarValue::Text(text))
                if &**text == "NONE" && self.cx.client.capabilities & OPTIONAL_METADATA == 0 =>
            {
                Err(SqlError::wrong_variable_value(variable.name, text))
            }
            ("character_set_client", VarValue::Text(name)) => client_charset(name).map(drop),
            (
                named @ (full_text::STOPWORD_TABLE | full_text::USER_STOPWORD_TABLE),
                VarValue::Text(name),
            ) if !name.is_empty() => full_text::stopword_table(&self.cx, named, name).map(drop),
            (full_text::AUX_TABLE, VarValue::Text(name)) if !name.is_empty() => {
                full_text::aux_table(&self.cx, name).map(drop)
            }
            ("init_connect", VarValue::Text(text)) if !text.is_empty() => {
                Err(SqlError::wrong_variable_value(variable.name, text))
            }
            ("connection_memory_limit" | "statement_memory_limit", VarValue::Int(bytes))
                if target.is_session()
                    && *bytes > self.cx.server.globals.read().int(variable.name) =>
            {
                let shown = "SUPER or SYSTEM_VARIABLES_ADMIN";
                self.cx
                    .need_global(porpoise_access::Privileges::SUPER, shown)
            }
            ("sql_log_bin", _) if target.is_session() => self.cx.need_global(
                porpoise_access::Privileges::SYSTEM_VARIABLES_ADMIN,
                "SUPER or SYSTEM_VARIABLES_ADMIN",
            ),
            ("slow_query_log_file", VarValue::Text(name)) => {
                let globals = self.cx.server.globals.read().clone();
                slow_log::check_file(&globals, name).map_err(|error| {
                    let value = format!("{name}' ({error})");
                    SqlError::wrong_variable_value(variable.name, &value)
                })
            }
            ("partial_revokes", VarValue::Bool(on)) => {
                Ok(self.cx.server.access.data().check_partial_revokes(*on)?)
            }
            ("offline_mode", v) if *v == VarValue::Bool(true) => {
                Err(SqlError::not_supported(&format!("{} = ON", variable.name)))
            }
            _ => Ok(()),
        }
    }

    /// Warns of deprecated character sets and collations, and of SQL modes that belong together.
    fn warn_of_value(&self, variable: &Variable, value: &VarValue) {
        let VarValue::Text(text) = value else {
            return;
        };
        let deprecated = if variable.name.starts_with("character_set_") {
            Deprecation::Charset(text)
        } else if variable.name.starts_with("collation_") {
            Deprecation::Collation(text)
        } else {
            if variable.name == "sql_mode" && splits_strict_mode(text) {
                self.cx.warn(3135, STRICT_MODES.to_owned());
            }
            return;
        };
        self.cx.warn_deprecated(&[deprecated]);
    }

    /// The checked value of an assignment to a system variable.
    fn value_for(
        &mut self,
        at: usize,
        variable: &'static Variable,
        target: Target,
        value: &Expr<'_>,
        params: &[ValueRef<'_>],
        types: &[ColumnType],
    ) -> Result<VarValue> {
        match &value.kind {
            ExprKind::Default if !target.is_session() || variable.scope == Scope::Session => {
                check::from_text(variable, variable.default)
            }
            ExprKind::Default => Ok(self.cx.server.globals.read().value_at(at).clone()),
            ExprKind::Column(word) if word.table.is_none() => {
                let word = ValueRef::Bytes(word.name.name.as_bytes());
                check::from_value(variable, word, &mut |w| self.cx.env.warn(w))
            }
            _ => {
                let (value, _) = self.value_of(value, params, types)?;
                check::from_value(variable, value.as_ref(), &mut |w| self.cx.env.warn(w))
            }
        }
    }

    /// The connection collation of SET NAMES; no character set stands for DEFAULT.
    fn names_collation(
        &self,
        charset: Option<Ident<'_>>,
        collation: Option<Ident<'_>>,
    ) -> Result<Collation> {
        let Some(charset) = charset else {
            return Ok(self.cx.default_collation());
        };
        let charset = client_charset(charset.name)?;
        let Some(name) = collation else {
            return Ok(self.cx.collation_for(charset));
        };
        let collation = crate::definition::collation_named(name.name)?;
        if collation.charset() != charset {
            return Err(crate::definition::collation_mismatch(collation, charset));
        }
        Ok(collation)
    }

    /// SET NAMES.
    pub(crate) fn set_names(&mut self, collation: Collation) -> Result<()> {
        let charset = collation.charset().name();
        self.set_unchecked("character_set_client", charset);
        self.set_unchecked("character_set_results", charset);
        self.set_unchecked("character_set_connection", charset);
        self.set_unchecked("collation_connection", collation.name());
        self.apply_settings()
    }

    /// Sets a session variable to a value that needs no check.
    pub(crate) fn set_unchecked(&mut self, name: &str, text: &str) {
        if let Some(at) = vars::find(name) {
            self.cx.values.set(at, VarValue::Text(Arc::from(text)));
        }
    }

    /// Sets a variable, globally or in the session, to a value given as text.
    pub(crate) fn assign(&mut self, name: &str, global: bool, text: &str) -> Result<()> {
        let (at, variable) = vars::entry(name)?;
        let value = check::from_text(variable, text)?;
        self.apply(Change::System {
            at,
            variable,
            target: if global {
                Target::Global
            } else {
                Target::Session
            },
            value,
        })
    }

    fn apply(&mut self, change: Change) -> Result<()> {
        match change {
            Change::User(name, value, ty) => {
                self.tracker.state();
                self.cx.env.set_user_variable(name, value, ty)?;
            }
            Change::Names(collation) => {
                self.set_names(collation)?;
                self.track_charsets();
            }
            Change::Charset(charset) => {
                let connection = self.cx.values.text("collation_database").to_owned();
                let connection = Collation::by_name(&connection).unwrap_or(Collation::BINARY);
                self.set_unchecked("character_set_client", charset.name());
                self.set_unchecked("character_set_results", charset.name());
                self.set_unchecked("character_set_connection", connection.charset().name());
                self.set_unchecked("collation_connection", connection.name());
                self.track_charsets();
            }
            Change::System {
                at,
                variable,
                target: Target::Global | Target::Persist,
                value,
            } => {
                set_global_variable(&self.cx.server, at, variable, value)?;
            }
            Change::System {
                at,
                variable,
                target: Target::Session,
                value,
            } => {
                self.apply_elsewhere(variable.name, &value);
                self.tracker.variable(at);
                if let Some((at, value)) = paired_variable(variable.name, &value) {
                    self.cx.values.set(at, value);
                }
                self.cx.values.set(at, value);
            }
            Change::System {
                target: Target::PersistOnly,
                ..
            } => {}
        }
        Ok(())
    }

    /// Stores the values that are kept across restarts.
    fn persist(&self, changes: &[Change]) -> Result<()> {
        let server = &self.cx.server;
        let set_at = server.db.clock().unix_micros();
        let persisted = changes.iter().filter_map(|change| match change {
            Change::System {
                variable,
                target,
                value,
                ..
            } if target.is_persisted() => Some(PersistedVariable {
                name: variable.name.to_owned(),
                value: value.text(),
                set_at,
                user: self.cx.client.user.clone(),
                host: self.cx.client.host.clone(),
            }),
            _ => None,
        });
        let persisted: Vec<PersistedVariable> = persisted.collect();
        if !persisted.is_empty() {
            persisted::change(&server.db, &persisted, &[])?;
        }
        Ok(())
    }

    /// RESET PERSIST [[IF EXISTS] name]: forgets one persisted variable, or all.
    pub(super) fn reset_persist(&mut self, words: &[Ident<'_>]) -> Result<Outcome> {
        let is = |word: &Ident<'_>, text: &str| word.name.eq_ignore_ascii_case(text);
        let (if_exists, wanted) = match words {
            [] => (false, None),
            [name] => (false, Some(name.name)),
            [first, second, name] if is(first, "IF") && is(second, "EXISTS") => {
                (true, Some(name.name))
            }
            _ => {
                return Err(SqlError::not_supported(
                    "RESET PERSIST of several variables",
                ));
            }
        };
        let server = self.cx.server.clone();
        let known = persisted::load(&server.db)?.into_iter();
        let mut names: Vec<String> = known.map(|variable| variable.name).collect();
        if let Some(wanted) = wanted {
            names.retain(|name| name.eq_ignore_ascii_case(wanted));
            if names.is_empty() {
                let text = format!("Variable {wanted} does not exist in persisted config file");
                if !if_exists {
                    return Err(SqlError::new(3615, "HY000", text));
                }
                self.cx.warn(3615, text);
            }
        }
        if !names.is_empty() {
            persisted::change(&server.db, &[], &names)?;
        }
        Ok(Outcome::default())
    }

    /// Reports the variables that SET NAMES sets to a tracking client.
    fn track_charsets(&mut self) {
        for name in [
            "character_set_client",
            "character_set_results",
            "character_set_connection",
        ] {
            if let Some(at) = vars::find(name) {
                self.tracker.variable(at);
            }
        }
    }

    /// Applies a variable that is stored not only in the list of values.
    fn apply_elsewhere(&mut self, name: &str, value: &VarValue) {
        match (name, value) {
            ("last_insert_id", VarValue::Int(id)) => {
                self.cx.last_insert_id = *id;
                self.cx.env.last_insert_id.set(*id);
            }
            ("session_track_system_variables", VarValue::Text(list)) => {
                self.warn_of_untracked(list);
            }
            ("rand_seed1", VarValue::Int(seed)) => {
                let low = self.cx.env.random.get() & 0xFFFF_FFFF;
                self.cx.env.random.set(seed << 32 | low);
            }
            ("rand_seed2", VarValue::Int(seed)) => {
                let high = self.cx.env.random.get() & !0xFFFF_FFFF;
                self.cx.env.random.set(high | (seed & 0xFFFF_FFFF));
            }
            _ => {}
        }
    }
}

/// The character set with this name. Error 1231 if statements cannot be sent in it.
fn client_charset(name: &str) -> Result<Charset> {
    let charset = charset_named(name)?;
    if charset.is_for_clients() {
        return Ok(charset);
    }
    let name = charset.name();
    Err(SqlError::wrong_variable_value("character_set_client", name))
}

/// Sets a global value, and passes it on to the part of the server that uses it.
pub(crate) fn set_global_variable(
    server: &SqlServer,
    at: usize,
    variable: &Variable,
    value: VarValue,
) -> Result<()> {
    match (variable.name, &value) {
        ("global_connection_memory_limit", VarValue::Int(bytes)) => {
            server.memory.set_limit(*bytes);
        }
        ("partial_revokes", VarValue::Bool(on)) => server.access.set_partial_revokes(*on)?,
        ("time_zone", VarValue::Text(zone)) => {
            let zone = TimeZone::parse(zone);
            server.db.set_expiry_zone(zone.unwrap_or(TimeZone::UTC));
        }
        ("binlog_row_image", VarValue::Text(image)) => {
            if let Some(log) = server.binary_log() {
                log.set_row_image(image);
            }
        }
        ("read_only" | "super_read_only", VarValue::Bool(false)) => {
            server.check_may_permit_writes()?;
        }
        ("replication_epoch", VarValue::Int(epoch)) => {
            if !server.replica()?.take_over(*epoch)? {
                let text = epoch.to_string();
                return Err(SqlError::wrong_variable_value(variable.name, &text));
            }
            return Ok(());
        }
        ("read_staleness", staleness) => {
            let staleness = settings::staleness(staleness).unwrap_or_default();
            server.db.set_read_staleness(staleness);
        }
        ("statement_sample_values", VarValue::Bool(on)) => {
            server.digests.set_sample_values(*on);
        }
        ("hot_key_sample_interval", VarValue::Int(_)) => {
            server.sample_hot_keys(&value);
        }
        _ => {}
    }
    if is_acknowledgement(variable.name)
        && value == VarValue::Bool(true)
        && server.binary_log().is_none()
    {
        return Err(crate::binary_log::not_used());
    }
    let partner = paired_variable(variable.name, &value);
    let mut globals = server.globals.write();
    globals.set(at, value);
    if let Some((at, value)) = partner {
        globals.set(at, value);
    }
    drop(globals);
    if is_acknowledgement(variable.name) {
        server.apply_acknowledgement()?;
    }
    if matches!(variable.name, "read_only" | "super_read_only") {
        server.apply_read_only();
    }
    if slow_log::VARIABLES.contains(&variable.name) {
        server.slow_log.configure(&server.globals.read());
    }
    if variable.name == "mandatory_roles" {
        // Makes sessions compute their rights again.
        server.access.reload()?;
    }
    Ok(())
}

/// The variable that changes together with this one: a character set and its collation.
fn paired_variable(name: &str, value: &VarValue) -> Option<(usize, VarValue)> {
    match (name, value) {
        // Each implies the other in one direction, as in MySQL.
        ("super_read_only", VarValue::Bool(true)) => {
            return Some((vars::find("read_only")?, VarValue::Bool(true)));
        }
        ("read_only", VarValue::Bool(false)) => {
            return Some((vars::find("super_read_only")?, VarValue::Bool(false)));
        }
        ("rpl_semi_sync_source_enabled", on) => {
            return Some((vars::find("rpl_semi_sync_master_enabled")?, on.clone()));
        }
        _ => {}
    }
    let VarValue::Text(text) = value else {
        return None;
    };
    if let Some(purpose) = name.strip_prefix("character_set_") {
        let at = vars::find(&format!("collation_{purpose}"))?;
        let collation = Charset::by_name(text)?.default_collation();
        return Some((at, VarValue::Text(Arc::from(collation.name()))));
    }
    let purpose = name.strip_prefix("collation_")?;
    let at = vars::find(&format!("character_set_{purpose}"))?;
    let charset = Collation::by_name(text)?.charset();
    Some((at, VarValue::Text(Arc::from(charset.name()))))
}

/// Whether a variable is a setting of the wait for acknowledgements of replicas.
fn is_acknowledgement(name: &str) -> bool {
    matches!(
        name,
        "rpl_semi_sync_source_enabled"
            | "rpl_semi_sync_source_timeout"
            | "rpl_semi_sync_source_wait_for_replica_count"
    )
}

/// The value that an assignment with this scope sets. Errors 1228, 1229 and 1238 if the variable does
/// not have that scope.
fn target_of(variable: &Variable, scope: VarScope) -> Result<Target> {
    let name = variable.name;
    match (scope, variable.scope) {
        (VarScope::PersistOnly, Scope::Fixed) => {
            let kind = "non persistent read only";
            Err(SqlError::wrong_variable_scope(name, kind))
        }
        (_, Scope::Fixed | Scope::SessionFixed) => {
            Err(SqlError::wrong_variable_scope(name, "read only"))
        }
        (VarScope::Global | VarScope::Persist | VarScope::PersistOnly, Scope::Session) => {
            let text = format!(
                "Variable '{name}' is a SESSION variable and can't be used with SET GLOBAL"
            );
            Err(SqlError::new(1228, "HY000", text))
        }
        (VarScope::Global, _) => Ok(Target::Global),
        (VarScope::Persist, _) => Ok(Target::Persist),
        (VarScope::PersistOnly, _) => Ok(Target::PersistOnly),
        (_, Scope::Global) => {
            let text =
                format!("Variable '{name}' is a GLOBAL variable and should be set with SET GLOBAL");
            Err(SqlError::new(1229, "HY000", text))
        }
        _ => Ok(Target::Session),
    }
}
