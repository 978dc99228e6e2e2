//! Status variables that each session counts (manual, "Server Status Variables").
//!
//! A session adds to its own counters with plain loads and stores. The global value is the sum over
//! the open sessions and over those that have ended.
//!
//! Invariants:
//! 1. Only its session adds to a [`SessionCounters`].
//! 2. The counters of a session are added to those of ended sessions under the lock under which
//!    the session leaves the process list ([`crate::processes`]), so that a sum counts each
//!    session once.

mod commands;

pub(crate) use commands::{of_plan, of_statement};

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($name:ident = $shown:literal,)+) => {
        /// A status variable that sessions count.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Counter {
            $(
                #[doc = $shown]
                $name,
            )+
        }

        impl Counter {
            /// All counters.
            pub const ALL: &[Counter] = &[$(Counter::$name,)+];

            /// The name in SHOW STATUS.
            pub fn name(self) -> &'static str {
                match self {
                    $(Counter::$name => $shown,)+
                }
            }
        }
    };
}

counters! {
    BytesReceived = "Bytes_received",
    BytesSent = "Bytes_sent",
    AdminCommands = "Com_admin_commands",
    AlterDb = "Com_alter_db",
    AlterEvent = "Com_alter_event",
    AlterFunction = "Com_alter_function",
    AlterProcedure = "Com_alter_procedure",
    AlterTable = "Com_alter_table",
    AlterUser = "Com_alter_user",
    AlterUserDefaultRole = "Com_alter_user_default_role",
    Analyze = "Com_analyze",
    Backup = "Com_backup",
    Begin = "Com_begin",
    Binlog = "Com_binlog",
    CallProcedure = "Com_call_procedure",
    ChangeDb = "Com_change_db",
    ChangeReplicationFilter = "Com_change_repl_filter",
    ChangeReplicationSource = "Com_change_replication_source",
    Check = "Com_check",
    Checksum = "Com_checksum",
    Commit = "Com_commit",
    CreateDb = "Com_create_db",
    CreateEvent = "Com_create_event",
    CreateFunction = "Com_create_function",
    CreateIndex = "Com_create_index",
    CreateProcedure = "Com_create_procedure",
    CreateRole = "Com_create_role",
    CreateTable = "Com_create_table",
    CreateTrigger = "Com_create_trigger",
    CreateUser = "Com_create_user",
    CreateView = "Com_create_view",
    DeallocSql = "Com_dealloc_sql",
    Delete = "Com_delete",
    DeleteMulti = "Com_delete_multi",
    Do = "Com_do",
    DropDb = "Com_drop_db",
    DropEvent = "Com_drop_event",
    DropFunction = "Com_drop_function",
    DropIndex = "Com_drop_index",
    DropProcedure = "Com_drop_procedure",
    DropRole = "Com_drop_role",
    DropTable = "Com_drop_table",
    DropTrigger = "Com_drop_trigger",
    DropUser = "Com_drop_user",
    DropView = "Com_drop_view",
    ExecuteSql = "Com_execute_sql",
    ExplainOther = "Com_explain_other",
    Flush = "Com_flush",
    GetDiagnostics = "Com_get_diagnostics",
    Grant = "Com_grant",
    GrantRoles = "Com_grant_roles",
    Help = "Com_help",
    Import = "Com_import",
    Insert = "Com_insert",
    InsertSelect = "Com_insert_select",
    InstallPlugin = "Com_install_plugin",
    Kill = "Com_kill",
    Load = "Com_load",
    LockInstance = "Com_lock_instance",
    LockTables = "Com_lock_tables",
    Optimize = "Com_optimize",
    PrepareSql = "Com_prepare_sql",
    ReleaseSavepoint = "Com_release_savepoint",
    RenameTable = "Com_rename_table",
    RenameUser = "Com_rename_user",
    Repair = "Com_repair",
    Replace = "Com_replace",
    ReplaceSelect = "Com_replace_select",
    Purge = "Com_purge",
    ReplicaStart = "Com_replica_start",
    ReplicaStop = "Com_replica_stop",
    Reset = "Com_reset",
    Resignal = "Com_resignal",
    Restart = "Com_restart",
    Revoke = "Com_revoke",
    RevokeRoles = "Com_revoke_roles",
    Rollback = "Com_rollback",
    RollbackToSavepoint = "Com_rollback_to_savepoint",
    Savepoint = "Com_savepoint",
    Select = "Com_select",
    SetOption = "Com_set_option",
    SetPassword = "Com_set_password",
    SetRole = "Com_set_role",
    ShowBinaryLogStatus = "Com_show_binary_log_status",
    ShowBinlogEvents = "Com_show_binlog_events",
    ShowBinlogs = "Com_show_binlogs",
    ShowCharsets = "Com_show_charsets",
    ShowCollations = "Com_show_collations",
    ShowCreateDb = "Com_show_create_db",
    ShowCreateEvent = "Com_show_create_event",
    ShowCreateFunc = "Com_show_create_func",
    ShowCreateProc = "Com_show_create_proc",
    ShowCreateTable = "Com_show_create_table",
    ShowCreateTrigger = "Com_show_create_trigger",
    ShowCreateUser = "Com_show_create_user",
    ShowDatabases = "Com_show_databases",
    ShowEngineLogs = "Com_show_engine_logs",
    ShowEngineMutex = "Com_show_engine_mutex",
    ShowEngineStatus = "Com_show_engine_status",
    ShowErrors = "Com_show_errors",
    ShowEvents = "Com_show_events",
    ShowFields = "Com_show_fields",
    ShowFunctionCode = "Com_show_function_code",
    ShowFunctionStatus = "Com_show_function_status",
    ShowGrants = "Com_show_grants",
    ShowKeys = "Com_show_keys",
    ShowOpenTables = "Com_show_open_tables",
    ShowPlugins = "Com_show_plugins",
    ShowPrivileges = "Com_show_privileges",
    ShowProcedureCode = "Com_show_procedure_code",
    ShowProcedureStatus = "Com_show_procedure_status",
    ShowProcesslist = "Com_show_processlist",
    ShowProfile = "Com_show_profile",
    ShowProfiles = "Com_show_profiles",
    ShowReplicaStatus = "Com_show_replica_status",
    ShowReplicas = "Com_show_replicas",
    ShowStatus = "Com_show_status",
    ShowStorageEngines = "Com_show_storage_engines",
    ShowTableStatus = "Com_show_table_status",
    ShowTables = "Com_show_tables",
    ShowTriggers = "Com_show_triggers",
    ShowVariables = "Com_show_variables",
    ShowWarnings = "Com_show_warnings",
    Shutdown = "Com_shutdown",
    Signal = "Com_signal",
    StmtClose = "Com_stmt_close",
    StmtExecute = "Com_stmt_execute",
    StmtFetch = "Com_stmt_fetch",
    StmtPrepare = "Com_stmt_prepare",
    StmtReprepare = "Com_stmt_reprepare",
    StmtReset = "Com_stmt_reset",
    StmtSendLongData = "Com_stmt_send_long_data",
    Truncate = "Com_truncate",
    UninstallPlugin = "Com_uninstall_plugin",
    UnlockInstance = "Com_unlock_instance",
    UnlockTables = "Com_unlock_tables",
    Update = "Com_update",
    UpdateMulti = "Com_update_multi",
    XaCommit = "Com_xa_commit",
    XaEnd = "Com_xa_end",
    XaPrepare = "Com_xa_prepare",
    XaRecover = "Com_xa_recover",
    XaRollback = "Com_xa_rollback",
    XaStart = "Com_xa_start",
    HandlerCommit = "Handler_commit",
    HandlerDelete = "Handler_delete",
    HandlerPrepare = "Handler_prepare",
    HandlerReadFirst = "Handler_read_first",
    HandlerReadKey = "Handler_read_key",
    HandlerReadLast = "Handler_read_last",
    HandlerReadNext = "Handler_read_next",
    HandlerReadPrev = "Handler_read_prev",
    HandlerReadRndNext = "Handler_read_rnd_next",
    HandlerRollback = "Handler_rollback",
    HandlerSavepoint = "Handler_savepoint",
    HandlerSavepointRollback = "Handler_savepoint_rollback",
    HandlerUpdate = "Handler_update",
    HandlerWrite = "Handler_write",
    Queries = "Queries",
    Questions = "Questions",
    SlowQueries = "Slow_queries",
}

/// Status variables of mechanisms of InnoDB and MySQL that this server does not have.
pub(crate) const ALWAYS_ZERO: &[&str] = &[
    "Handler_discover",
    "Handler_external_lock",
    "Handler_mrr_init",
    "Innodb_buffer_pool_reads",
    "Innodb_buffer_pool_wait_free",
    "Innodb_dblwr_pages_written",
    "Innodb_dblwr_writes",
    "Innodb_log_waits",
    "Threads_cached",
];

/// InnoDB's status variables, and the statistics of the embedded engine that they show.
pub(crate) const ENGINE_STATS: &[(&str, &str)] = &[
    ("Innodb_buffer_pool_bytes_data", "live_bytes"),
    ("Innodb_log_write_requests", "log_grouped_commits_total"),
    ("Innodb_log_writes", "log_groups_total"),
    ("Innodb_os_log_fsyncs", "log_syncs_total"),
    ("Innodb_os_log_written", "log_bytes_total"),
    ("Innodb_row_lock_waits", "lock_waits_total"),
];

/// InnoDB's status variables, and the counters whose sum they show.
pub(crate) const COUNTER_SUMS: &[(&str, &[Counter])] = &[
    ("Innodb_rows_deleted", &[Counter::HandlerDelete]),
    ("Innodb_rows_inserted", &[Counter::HandlerWrite]),
    (
        "Innodb_rows_read",
        &[
            Counter::HandlerReadKey,
            Counter::HandlerReadNext,
            Counter::HandlerReadPrev,
            Counter::HandlerReadRndNext,
        ],
    ),
    ("Innodb_rows_updated", &[Counter::HandlerUpdate]),
];

/// The counters of one session.
#[derive(Debug)]
pub(crate) struct SessionCounters([AtomicU64; Counter::ALL.len()]);

impl Default for SessionCounters {
    fn default() -> SessionCounters {
        SessionCounters([const { AtomicU64::new(0) }; Counter::ALL.len()])
    }
}

impl SessionCounters {
    /// Adds to a counter. Called by the owning session only.
    #[inline]
    pub(crate) fn add(&self, counter: Counter, n: u64) {
        if let Some(cell) = self.0.get(counter as usize) {
            // One writer: no read-modify-write is needed.
            let value = cell.load(Ordering::Relaxed);
            cell.store(value.wrapping_add(n), Ordering::Relaxed);
        }
    }

    /// The value of a counter.
    pub(crate) fn get(&self, counter: Counter) -> u64 {
        let cell = self.0.get(counter as usize);
        cell.map_or(0, |cell| cell.load(Ordering::Relaxed))
    }

    /// Adds all counters to `total`, which only one thread at a time changes, and clears them.
    pub(crate) fn move_to(&self, total: &SessionCounters) {
        for (counter, cell) in Counter::ALL.iter().zip(&self.0) {
            total.add(*counter, cell.swap(0, Ordering::Relaxed));
        }
    }

    /// Adds the row accesses of a statement.
    pub(crate) fn add_accesses(&self, accesses: porpoise_rows::AccessCounts) {
        let counts = [
            (Counter::HandlerReadFirst, accesses.first),
            (Counter::HandlerReadKey, accesses.key),
            (Counter::HandlerReadLast, accesses.last),
            (Counter::HandlerReadNext, accesses.next),
            (Counter::HandlerReadPrev, accesses.prev),
            (Counter::HandlerReadRndNext, accesses.scanned),
            (Counter::HandlerWrite, accesses.inserted),
            (Counter::HandlerUpdate, accesses.updated),
            (Counter::HandlerDelete, accesses.deleted),
        ];
        for (counter, n) in counts {
            if n > 0 {
                self.add(counter, n);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_counters_keep_their_place() {
        let mut names: Vec<&str> = Counter::ALL.iter().map(|c| c.name()).collect();
        names.extend(ALWAYS_ZERO);
        names.extend(ENGINE_STATS.iter().map(|(name, _)| name));
        names.extend(COUNTER_SUMS.iter().map(|(name, _)| name));
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        let (session, total) = (SessionCounters::default(), SessionCounters::default());
        for (n, counter) in (1..).zip(Counter::ALL) {
            session.add(*counter, n);
        }
        session.move_to(&total);
        for (n, counter) in (1..).zip(Counter::ALL) {
            assert_eq!((total.get(*counter), session.get(*counter)), (n, 0));
        }
    }
}
