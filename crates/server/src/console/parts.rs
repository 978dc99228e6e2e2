//! The parts of the page: the fixed statement that each part reads.
//!
//! Column names are given explicitly: the page knows them. A part whose table does not exist is
//! answered as missing, and the page says so.

/// A part.
pub(super) struct Part {
    /// Name in the path.
    pub(super) name: &'static str,
    /// Its statement.
    pub(super) statement: &'static str,
}

const fn part(name: &'static str, statement: &'static str) -> Part {
    Part { name, statement }
}

/// All parts.
pub(super) const PARTS: &[Part] = &[
    part("status", "SHOW GLOBAL STATUS"),
    part(
        "statements",
        "SELECT SCHEMA_NAME AS `schema`, DIGEST AS digest, DIGEST_TEXT AS text, COUNT_STAR AS count, \
         SUM_ERRORS AS errors, SUM_TIMER_WAIT DIV 1000000 AS total_us, AVG_TIMER_WAIT DIV 1000000 AS avg_us, \
         MAX_TIMER_WAIT DIV 1000000 AS max_us, QUANTILE_95 DIV 1000000 AS p95_us, \
         QUANTILE_99 DIV 1000000 AS p99_us, SUM_LOCK_TIME DIV 1000000 AS lock_us, \
         SUM_ROWS_EXAMINED AS examined, SUM_ROWS_SENT AS sent, SUM_ROWS_AFFECTED AS affected, \
         SUM_SELECT_SCAN AS scans, LAST_SEEN AS last_seen \
         FROM performance_schema.events_statements_summary_by_digest \
         ORDER BY SUM_TIMER_WAIT DESC LIMIT 200",
    ),
    part(
        "processes",
        "SELECT ID AS id, USER AS user, HOST AS host, DB AS `schema`, COMMAND AS command, TIME AS seconds, \
         STATE AS state, LEFT(INFO, 1000) AS statement FROM information_schema.PROCESSLIST \
         ORDER BY COMMAND = 'Sleep', TIME DESC, ID LIMIT 500",
    ),
    part(
        "stages",
        "SELECT THREAD_ID AS id, WORK_COMPLETED AS completed, WORK_ESTIMATED AS estimated \
         FROM performance_schema.events_stages_current LIMIT 500",
    ),
    part(
        "locks",
        "SELECT THREAD AS waiting, USER AS waiting_user, LEFT(QUERY, 300) AS waiting_statement, \
         LOCK_SCHEMA AS `schema`, LOCK_TABLE AS `table`, LOCK_INDEX AS `index`, LOCK_KEY AS `key`, \
         LOCK_MODE AS mode, WAITED_MICROSECONDS AS waited_us, BLOCKING_THREAD AS blocking, \
         BLOCKING_USER AS blocking_user, LEFT(BLOCKING_QUERY, 300) AS blocking_statement, \
         CAST(BLOCKING_TRX_ID AS CHAR) AS blocking_transaction \
         FROM information_schema.LOCK_WAITS ORDER BY WAITED_MICROSECONDS DESC LIMIT 200",
    ),
    part(
        "deadlocks",
        "SELECT DEADLOCK AS deadlock, TIME AS time, VICTIM AS victim, THREAD AS thread, USER AS user, \
         LOCK_SCHEMA AS `schema`, LOCK_TABLE AS `table`, LOCK_INDEX AS `index`, LOCK_KEY AS `key`, \
         LEFT(QUERY, 300) AS statement FROM information_schema.DEADLOCKS ORDER BY DEADLOCK DESC LIMIT 100",
    ),
    part(
        "hot_keys",
        "SELECT TABLE_SCHEMA AS `schema`, TABLE_NAME AS `table`, INDEX_NAME AS `index`, INTERFACE AS interface, \
         KEY_PREFIX AS prefix, KEY_TEXT AS `key`, LOOKUPS AS lookups, WRITES AS writes, MAX_ERROR AS max_error, \
         SHARE AS share FROM information_schema.HOT_KEYS ORDER BY LOOKUPS DESC LIMIT 100",
    ),
    part(
        "tables",
        "SELECT TABLE_SCHEMA AS `schema`, TABLE_NAME AS `table`, TABLE_TYPE AS type, \
         TABLE_ROWS AS table_rows, DATA_LENGTH AS data_bytes, INDEX_LENGTH AS index_bytes, \
         CREATE_OPTIONS AS options FROM information_schema.TABLES WHERE TABLE_SCHEMA NOT IN \
         ('information_schema', 'performance_schema', 'sys', 'mysql') \
         AND NOT (TABLE_SCHEMA = 'ndbmemcache' AND TABLE_NAME = 'status') ORDER BY TABLE_ROWS DESC, TABLE_SCHEMA, TABLE_NAME LIMIT 500",
    ),
    part(
        "indexes",
        "SELECT TABLE_SCHEMA AS `schema`, TABLE_NAME AS `table`, INDEX_NAME AS `index`, \
         GROUP_CONCAT(COALESCE(COLUMN_NAME, EXPRESSION) ORDER BY SEQ_IN_INDEX SEPARATOR ', ') AS columns, \
         MAX(NON_UNIQUE) = 0 AS is_unique, MAX(CARDINALITY) AS cardinality, MAX(INDEX_TYPE) AS type \
         FROM information_schema.STATISTICS WHERE TABLE_SCHEMA NOT IN \
         ('information_schema', 'performance_schema', 'sys', 'mysql') \
         GROUP BY TABLE_SCHEMA, TABLE_NAME, INDEX_NAME ORDER BY 1, 2, 3 LIMIT 3000",
    ),
    part(
        "redundant_indexes",
        "SELECT table_schema AS `schema`, table_name AS `table`, redundant_index_name AS `index`, \
         dominant_index_name AS dominant FROM sys.schema_redundant_indexes LIMIT 100",
    ),
    part(
        "prefixes",
        "SELECT r.role_name AS role, s.key_prefix AS prefix, s.container AS container, c.db_schema AS `schema`, \
         c.db_table AS `table`, s.policy AS policy, p.get_policy AS get_policy, p.set_policy AS set_policy, \
         s.state AS state, s.reason AS reason FROM ndbmemcache.status s \
         LEFT JOIN ndbmemcache.containers c ON c.name = s.container \
         LEFT JOIN ndbmemcache.cache_policies p ON p.policy_name = s.policy \
         LEFT JOIN ndbmemcache.memcache_server_roles r ON r.role_id = s.server_role_id \
         ORDER BY s.server_role_id, s.key_prefix LIMIT 500",
    ),
    part("variables", "SHOW GLOBAL VARIABLES"),
    part(
        "variable_sources",
        "SELECT VARIABLE_NAME AS name, VARIABLE_SOURCE AS source, SET_TIME AS set_time, SET_USER AS set_user \
         FROM performance_schema.variables_info",
    ),
];

/// The part of a name.
pub(super) fn find(name: &str) -> Option<&'static Part> {
    PARTS.iter().find(|part| part.name == name)
}
