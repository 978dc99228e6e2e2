//! `bench budgets` of the figures without a peer that take no time: requests on a TiKV cluster.

use crate::support::{home, processor, report, run};
use porpoise_testkit::TikvDouble;

#[test]
fn statements_on_a_cluster_make_as_few_requests_as_their_budgets_allow() {
    // Built where the experiment looks for it.
    TikvDouble::program();
    let home = home();
    // Only servers that are started for an experiment are pinned: here none is.
    let pin = format!("server={}", processor());
    let words = [
        "budgets", "--quick", "--only", "on TiKV", "--json", "a.json", "--pin", &pin,
    ];
    let text = run(home.path(), &words);
    let met = text
        .lines()
        .filter(|line| line.starts_with("goal met: requests of "));
    assert_eq!(met.count(), 3, "{text}");
    assert!(
        text.ends_with("3 goal met, 0 floor met, 0 goal missed, 0 falls short, 0 not measured\n")
    );
    let whole = report(&home.path().join("a.json"));
    assert_eq!(whole["format"], 2);
    let experiment = &whole["experiments"][0];
    assert_eq!(experiment["setup"]["durability"], "sync");
    let measures = experiment["measures"].as_array().unwrap();
    let named = |name: &str| measures.iter().find(|m| m["name"] == name).unwrap();
    assert_eq!(named("point SELECT: timestamps")["value"], 1.0);
}
