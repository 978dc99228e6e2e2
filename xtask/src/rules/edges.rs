//! Checks the dependencies between crates, and the features.
//!
//! The table [`MEMBERS`] is the architecture: a crate depends on lower ones only, and only the
//! server and tests depend on engines. Synchronous crates do not depend on an async runtime, not
//! even indirectly.

use std::collections::BTreeSet;

use super::Violation;
use crate::tree::{Package, Tree};

const RULE: &str = "crate-edge";
const FEATURE_RULE: &str = "feature";

/// A workspace member, and the members that may be its ordinary dependencies.
struct Member {
    name: &'static str,
    may_name: &'static [&'static str],
}

const fn member(name: &'static str, may_name: &'static [&'static str]) -> Member {
    Member { name, may_name }
}

const MEMBERS: &[Member] = &[
    member("porpoise-base", &[]),
    member("porpoise-types", &["porpoise-base"]),
    member("porpoise-kv", &["porpoise-base"]),
    member("porpoise-kv-mem", &["porpoise-base", "porpoise-kv"]),
    member("porpoise-tikv-client", &["porpoise-base"]),
    member(
        "porpoise-kv-tikv",
        &["porpoise-base", "porpoise-kv", "porpoise-tikv-client"],
    ),
    member(
        "porpoise-rows",
        &["porpoise-base", "porpoise-types", "porpoise-kv"],
    ),
    member(
        "porpoise-access",
        &[
            "porpoise-base",
            "porpoise-types",
            "porpoise-kv",
            "porpoise-rows",
        ],
    ),
    member("porpoise-sql-parser", &["porpoise-base", "porpoise-types"]),
    member(
        "porpoise-sql-expr",
        &[
            "porpoise-base",
            "porpoise-types",
            "porpoise-kv",
            "porpoise-rows",
            "porpoise-sql-parser",
        ],
    ),
    member(
        "porpoise-sql-plan",
        &[
            "porpoise-access",
            "porpoise-base",
            "porpoise-types",
            "porpoise-kv",
            "porpoise-rows",
            "porpoise-sql-parser",
            "porpoise-sql-expr",
        ],
    ),
    member(
        "porpoise-sql-exec",
        &[
            "porpoise-base",
            "porpoise-types",
            "porpoise-kv",
            "porpoise-rows",
            "porpoise-sql-parser",
            "porpoise-sql-expr",
            "porpoise-sql-plan",
        ],
    ),
    member(
        "porpoise-sql",
        &[
            "porpoise-access",
            "porpoise-base",
            "porpoise-types",
            "porpoise-kv",
            "porpoise-rows",
            "porpoise-sql-parser",
            "porpoise-sql-expr",
            "porpoise-sql-plan",
            "porpoise-sql-exec",
        ],
    ),
    member("porpoise-backup", &["porpoise-base", "porpoise-client"]),
    member("porpoise-wire", &["porpoise-base", "porpoise-types"]),
    member("porpoise-client", &["porpoise-base", "porpoise-wire"]),
    member(
        "porpoise-replication",
        &[
            "porpoise-base",
            "porpoise-client",
            "porpoise-kv",
            "porpoise-rows",
            "porpoise-types",
            "porpoise-wire",
        ],
    ),
    member(
        "porpoise-binlog",
        &[
            "porpoise-base",
            "porpoise-types",
            "porpoise-kv",
            "porpoise-rows",
            "porpoise-replication",
        ],
    ),
    member(
        "porpoise-shell",
        &["porpoise-base", "porpoise-client", "porpoise-wire"],
    ),
    member(
        "porpoise-memcached",
        &[
            "porpoise-access",
            "porpoise-base",
            "porpoise-types",
            "porpoise-kv",
            "porpoise-rows",
            "porpoise-wire",
        ],
    ),
    member(
        "porpoise-native",
        &[
            "porpoise-access",
            "porpoise-base",
            "porpoise-types",
            "porpoise-kv",
            "porpoise-rows",
            "porpoise-wire",
        ],
    ),
    member(
        "porpoise-native-client",
        &[
            "porpoise-client",
            "porpoise-native-derive",
            "porpoise-types",
            "porpoise-wire",
        ],
    ),
    member("porpoise-native-derive", &[]),
    member("porpoise-native-c", &["porpoise-native-client"]),
    member(
        "porpoise",
        &[
            "porpoise-access",
            "porpoise-backup",
            "porpoise-base",
            "porpoise-binlog",
            "porpoise-client",
            "porpoise-types",
            "porpoise-kv",
            "porpoise-kv-mem",
            "porpoise-kv-tikv",
            "porpoise-memcached",
            "porpoise-native",
            "porpoise-replication",
            "porpoise-rows",
            "porpoise-shell",
            "porpoise-sql",
            "porpoise-wire",
        ],
    ),
    member(
        "porpoise-bench",
        &[
            "porpoise",
            "porpoise-base",
            "porpoise-client",
            "porpoise-kv",
            "porpoise-native-client",
            "porpoise-rows",
            "porpoise-types",
            "porpoise-wire",
        ],
    ),
    member(
        "porpoise-sim",
        &[
            "porpoise-base",
            "porpoise-binlog",
            "porpoise-types",
            "porpoise-kv",
            "porpoise-kv-mem",
            "porpoise-kv-tikv",
            "porpoise-replication",
            "porpoise-rows",
            "porpoise-sql",
            "porpoise-wire",
        ],
    ),
    member("porpoise-testkit", &[]),
    member("xtask", &[]),
];

/// Crates that may also be dev-dependencies: tests choose an engine, start processes and check
/// histories.
const FOR_TESTS: &[&str] = &[
    "porpoise-kv-mem",
    "porpoise-kv-tikv",
    "porpoise-native-client",
    "porpoise-sim",
    "porpoise-testkit",
];

/// Members that may not depend on an engine even in tests, because they use protocols only.
const NEVER_AN_ENGINE: &[&str] = &[
    "porpoise-backup",
    "porpoise-bench",
    "porpoise-client",
    "porpoise-native-c",
    "porpoise-native-client",
    "porpoise-shell",
    "porpoise-wire",
];

const ENGINES: &[&str] = &["porpoise-kv-mem", "porpoise-kv-tikv"];

/// Members that must not depend on an async runtime, directly or indirectly, except in tests.
const SYNCHRONOUS: &[&str] = &[
    "porpoise-backup",
    "porpoise-base",
    "porpoise-types",
    "porpoise-kv",
    "porpoise-kv-mem",
    "porpoise-replication",
    "porpoise-rows",
    "porpoise-access",
    "porpoise-sql-parser",
    "porpoise-sql-expr",
    "porpoise-sql-plan",
    "porpoise-sql-exec",
    "porpoise-sql",
    "porpoise-wire",
    "porpoise-client",
    "porpoise-shell",
    "porpoise-memcached",
    "porpoise-native",
];

const ASYNC_RUNTIME: &str = "tokio";

/// Packages from outside the workspace that only one member may depend on: package and member.
const RESERVED: &[(&str, &str)] = &[("tonic", "porpoise-tikv-client")];

/// The only feature of the workspace besides `default`, which may enable only this one.
const FEATURE: &str = "tikv";

/// Checks the dependencies of all members.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for package in &tree.packages {
        let Some(member) = MEMBERS.iter().find(|member| member.name == package.name) else {
            found.push(Violation::of(
                RULE,
                &package.name,
                "is not in the table of xtask/src/rules/edges.rs: add it there, with the crates that it may depend on"
                    .to_owned(),
            ));
            continue;
        };
        check_direct(package, member, &mut found);
        if SYNCHRONOUS.contains(&member.name) {
            check_synchronous(tree, package, &mut found);
        }
    }
    found
}

fn check_direct(package: &Package, member: &Member, found: &mut Vec<Violation>) {
    for dependency in &package.dependencies {
        let target = dependency.name.as_str();
        let is_dev = dependency.kind.as_deref() == Some("dev");
        if let Some((_, owner)) = RESERVED.iter().find(|(name, _)| *name == target)
            && *owner != package.name
        {
            found.push(Violation::of(
                RULE,
                &package.name,
                format!("names {target}, which only {owner} may name"),
            ));
        }
        if !MEMBERS.iter().any(|member| member.name == target) {
            continue;
        }
        let is_forbidden = NEVER_AN_ENGINE.contains(&member.name) && ENGINES.contains(&target);
        let is_for_tests = FOR_TESTS.contains(&target) || target == package.name;
        let allowed_in_tests = is_dev && is_for_tests && !is_forbidden;
        if !member.may_name.contains(&target) && !allowed_in_tests {
            let kind = dependency.kind.as_deref().unwrap_or("ordinary");
            found.push(Violation::of(
                RULE,
                &package.name,
                format!("may not name {target} ({kind} dependency)"),
            ));
        }
    }
}

fn check_synchronous(tree: &Tree, package: &Package, found: &mut Vec<Violation>) {
    let mut seen = BTreeSet::new();
    let mut open = vec![(package.id.as_str(), package.name.clone())];
    while let Some((id, trail)) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        if tree.names.get(id).map(String::as_str) == Some(ASYNC_RUNTIME) {
            found.push(Violation::of(
                RULE,
                &package.name,
                format!("must be synchronous, but depends on an async runtime: {trail}"),
            ));
            continue;
        }
        for target in tree.resolved.get(id).into_iter().flatten() {
            let name = tree.names.get(target).map_or("?", String::as_str);
            open.push((target, format!("{trail} -> {name}")));
        }
    }
}

/// Checks the features of all members.
pub fn check_features(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for package in &tree.packages {
        for (name, enables) in &package.features {
            let is_allowed = name == FEATURE
                || (name == "default" && enables.iter().all(|feature| feature == FEATURE));
            if !is_allowed {
                found.push(Violation::of(
                    FEATURE_RULE,
                    &package.name,
                    format!("has the feature `{name}`; `{FEATURE}` is the workspace's only one"),
                ));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Dependency;

    fn package(name: &str, dependencies: &[(&str, Option<&str>)]) -> Package {
        Package {
            name: name.to_owned(),
            id: name.to_owned(),
            dependencies: dependencies
                .iter()
                .map(|(name, kind)| Dependency {
                    name: (*name).to_owned(),
                    kind: kind.map(str::to_owned),
                })
                .collect(),
            features: Default::default(),
        }
    }

    fn violations(package: Package) -> Vec<String> {
        let tree = Tree {
            packages: vec![package],
            ..Tree::default()
        };
        check(&tree)
            .into_iter()
            .map(|found| found.message)
            .collect()
    }

    #[test]
    fn downward_edges_and_test_engines_pass() {
        let rows = package(
            "porpoise-rows",
            &[
                ("porpoise-kv", None),
                ("smallvec", None),
                ("porpoise-kv-mem", Some("dev")),
                ("porpoise-testkit", Some("dev")),
            ],
        );
        assert!(violations(rows).is_empty());
    }

    #[test]
    fn upward_edges_are_caught() {
        for (from, to) in [
            ("porpoise-kv", "porpoise-rows"),
            ("porpoise-sql", "porpoise-wire"),
            ("porpoise-rows", "porpoise-sql"),
            ("porpoise-rows", "porpoise-kv-mem"),
            ("porpoise-sql", "porpoise-kv-tikv"),
            ("porpoise-bench", "porpoise-kv-mem"),
            ("porpoise", "porpoise-testkit"),
            ("porpoise", "porpoise-bench"),
        ] {
            assert_eq!(
                violations(package(from, &[(to, None)])).len(),
                1,
                "{from} to {to}"
            );
        }
    }

    #[test]
    fn an_engine_as_dev_dependency_of_the_load_generator_is_caught() {
        let bench = package("porpoise-bench", &[("porpoise-kv-mem", Some("dev"))]);
        assert_eq!(violations(bench).len(), 1);
    }

    #[test]
    fn only_the_client_of_clusters_may_depend_on_grpc() {
        assert_eq!(violations(package("porpoise", &[("tonic", None)])).len(), 1);
        let client = package("porpoise-tikv-client", &[("tonic", None)]);
        assert!(violations(client).is_empty());
    }

    #[test]
    fn an_unknown_member_is_caught() {
        assert_eq!(violations(package("porpoise-extra", &[])).len(), 1);
    }

    #[test]
    fn an_async_runtime_is_caught_through_another_package() {
        let mut tree = Tree {
            packages: vec![package("porpoise-wire", &[])],
            ..Tree::default()
        };
        for (id, targets) in [("porpoise-wire", vec!["middle"]), ("middle", vec!["tokio"])] {
            let targets = targets.into_iter().map(str::to_owned).collect();
            tree.resolved.insert(id.to_owned(), targets);
        }
        for name in ["porpoise-wire", "middle", "tokio"] {
            tree.names.insert(name.to_owned(), name.to_owned());
        }
        let found = check(&tree);
        assert_eq!(found.len(), 1);
        assert!(
            found[0]
                .message
                .contains("porpoise-wire -> middle -> tokio")
        );
    }

    #[test]
    fn a_second_feature_is_caught() {
        let mut tikv = package("porpoise", &[]);
        tikv.features
            .insert("default".to_owned(), vec!["tikv".to_owned()]);
        tikv.features
            .insert("tikv".to_owned(), vec!["dep:x".to_owned()]);
        let mut more = tikv.clone();
        more.features.insert("turbo".to_owned(), Vec::new());
        let count = |package| {
            let packages = vec![package];
            check_features(&Tree {
                packages,
                ..Tree::default()
            })
            .len()
        };
        assert_eq!(count(tikv), 0);
        assert_eq!(count(more), 1);
    }
}
