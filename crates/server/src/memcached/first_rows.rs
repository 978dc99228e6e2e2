//! The rows that `ndbmemcache` begins with: roles, policies, containers,
//! prefixes.
//!
//! They are those of NDB's memcached, but for `caching`: there `flush_all`
//! deletes rows. With NDB it emptied the copies that each memcached had, and
//! every row came back with the next `get`, so that a client saw a cache that
//! cannot be emptied. Rows have no copies here; what a client may expect of a
//! cache's `flush_all` can only be the rows' end. Who wants rows to stay takes
//! `ndb-only` or sets `flush_from_db` to `false`; configurations that were
//! brought along keep what they say.
//!
//! The row of `meta` is the last one: see [`super::schema`].

/// Table, columns, and rows with words separated by spaces;
/// `-` is an empty word, `NULL` is NULL.
pub(super) const ROWS: &[(&str, &str, &[&str])] = &[
    ("ndb_clusters", "cluster_id ndb_connectstring", &["0 NULL"]),
    (
        "memcache_server_roles",
        "role_name role_id",
        &[
            "default_role 0",
            "db-only 1",
            "mc-only 2",
            "ndb-caching 3",
            "large 4",
        ],
    ),
    (
        "cache_policies",
        "policy_name get_policy set_policy delete_policy flush_from_db",
        &[
            "memcache-only cache_only cache_only cache_only false",
            "ndb-only ndb_only ndb_only ndb_only false",
            "ndb-test ndb_only ndb_only ndb_only true",
            "caching caching caching caching true",
            "caching-with-local-deletes caching caching cache_only false",
            "ndb-read-only ndb_only disabled disabled false",
        ],
    ),
    (
        "containers",
        "name db_schema db_table key_columns value_columns flags increment_column cas_column \
         expire_time_column large_values_table",
        &[
            "kv ndbmemcache kv mkey value flags NULL NULL expire_time NULL",
            "demo_table ndbmemcache demo_table mkey string_value 0 math_value cas_value NULL NULL",
            "demo_tabs ndbmemcache demo_table_tabs mkey val1,val2,val3 flags NULL NULL \
             expire_time NULL",
            "demo_ext ndbmemcache demo_table_large mkey string_value 0 NULL cas_value NULL \
             ndbmemcache.external_values",
        ],
    ),
    (
        "key_prefixes",
        "server_role_id key_prefix cluster_id policy container",
        &[
            "0 - 0 ndb-test kv",
            "1 - 0 ndb-only demo_table",
            "1 t: 0 ndb-only demo_tabs",
            "1 b: 0 ndb-only demo_ext",
            "2 - 0 memcache-only NULL",
            "3 - 0 caching demo_table",
            "3 t: 0 caching demo_tabs",
            "3 b: 0 caching demo_ext",
            "4 - 0 ndb-test demo_ext",
        ],
    ),
    ("meta", "application metadata_version", &["ndbmemcache 1.2"]),
];
