//! memccapable of libmemcached-tools, the conformance test of both classic dialects, under every
//! policy: only tests of commands that the policy forbids fail.

use porpoise_testkit::Porpoise;
use std::process::Command;

/// The tests of one dialect that do not pass, by name.
fn failing(server: &Porpoise, dialect: &str) -> Vec<String> {
    let address = server.memcached_addr;
    let done = Command::new("memccapable")
        .args(["-h", &address.ip().to_string()])
        .args(["-p", &address.port().to_string(), dialect])
        .output()
        .unwrap_or_else(|e| panic!("memccapable: {e}; `make needs` installs it"));
    // Names of tests that pass are followed by a mark, others are not; marks
    // of failures go elsewhere.
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let prefix = if dialect == "-a" { "ascii " } else { "binary " };
    let mut names = Vec::new();
    for part in text.split(prefix).skip(1) {
        let name = part.split("  ").next().unwrap().trim();
        names.push((name.to_owned(), part.contains("[pass]")));
    }
    assert_eq!(names.len(), 27, "{text}");
    let failed = names.into_iter().filter(|(_, passed)| !passed);
    failed.map(|(name, _)| name).collect()
}

fn start(policy: &str) -> Porpoise {
    let server = Porpoise::builder().arg("--durability", "memory").start();
    let done = server.sql(&format!(
        "INSERT INTO ndbmemcache.cache_policies
             (policy_name, get_policy, set_policy, delete_policy, flush_from_db) VALUES
             ('no-get', 'disabled', 'ndb_only', 'ndb_only', 'true'),
             ('no-set', 'ndb_only', 'disabled', 'ndb_only', 'true'),
             ('no-delete', 'ndb_only', 'ndb_only', 'disabled', 'true');
         UPDATE ndbmemcache.key_prefixes SET policy = '{policy}', container = 'kv'
             WHERE server_role_id = 0 AND key_prefix = '';"
    ));
    assert!(done.is_ok, "{}", done.stderr);
    server
}

/// Checks that exactly these tests fail; names end at spaces.
fn check(policy: &str, ascii: &[&str], binary: &[&str]) {
    let server = start(policy);
    assert_eq!(failing(&server, "-a"), ascii, "{policy}, ASCII");
    assert_eq!(failing(&server, "-b"), binary, "{policy}, binary");
}

#[test]
fn memccapable_passes_with_the_default_configuration() {
    let server = Porpoise::builder().arg("--mysql-listen", "off").start();
    assert_eq!(failing(&server, "-a"), [""; 0]);
    assert_eq!(failing(&server, "-b"), [""; 0]);
}

#[test]
fn memccapable_passes_if_the_policy_allows_all_operations() {
    for policy in ["memcache-only", "ndb-test", "caching"] {
        check(policy, &[], &[]);
    }
}

#[test]
fn flush_all_leaves_rows_where_the_policy_says_so() {
    check(
        "ndb-only",
        &["flush", "flush noreply"],
        &["flush", "flushq"],
    );
}

#[test]
fn deletes_that_stay_in_the_cache_leave_rows() {
    check(
        "caching-with-local-deletes",
        &["flush", "flush noreply", "delete", "delete noreply"],
        &["flush", "flushq", "delete", "deleteq"],
    );
}

#[test]
fn without_delete_only_delete_fails() {
    check(
        "no-delete",
        &["delete", "delete noreply"],
        &["delete", "deleteq"],
    );
}

/// Tests of memccapable that look at the value which a command left.
const ON_VALUES: &[&str] = &[
    "replace",
    "replace noreply",
    "cas",
    "cas noreply",
    "delete",
    "delete noreply",
    "incr",
    "incr noreply",
    "decr",
    "decr noreply",
    "append",
    "append noreply",
    "prepend",
    "prepend noreply",
];

#[test]
fn without_get_what_looks_at_values_fails() {
    let ascii = [
        &["get", "gets", "mget", "flush", "flush noreply"],
        ON_VALUES,
    ]
    .concat();
    check(
        "no-get",
        &ascii,
        &[
            "flush", "flushq", "get", "getq", "getk", "getkq", "append", "appendq", "prepend",
            "prependq",
        ],
    );
}

#[test]
fn without_the_set_policy_commands_that_start_with_a_set_fail() {
    let own = [
        "set",
        "set noreply",
        "get",
        "gets",
        "mget",
        "flush",
        "flush noreply",
        "add",
        "add noreply",
    ];
    let ascii = [&own[..], ON_VALUES].concat();
    let binary = [
        "set", "setq", "flush", "flushq", "add", "addq", "replace", "replaceq", "delete",
        "deleteq", "get", "getq", "getk", "getkq", "incr", "incrq", "decr", "decrq", "append",
        "appendq", "prepend", "prependq",
    ];
    // A store without an answer has none that could be wrong.
    let quiet = ["set noreply", "add noreply"];
    let ascii: Vec<&str> = ascii.into_iter().filter(|n| !quiet.contains(n)).collect();
    for policy in ["no-set", "ndb-read-only"] {
        check(policy, &ascii, &binary);
    }
}
