//! Credentials, tokens and privileges.

use super::client::*;
use serde_json::json;

fn basic(server: &porpoise_testkit::Porpoise, encoded: &str) -> Client {
    Client {
        address: address(server),
        credentials: format!("Authorization: Basic {encoded}"),
    }
}

/// `ann:secret` in base64.
const ANN: &str = "YW5uOnNlY3JldA==";
/// `ann:other` in base64.
const ANN_OTHER: &str = "YW5uOm90aGVy";

#[test]
fn requests_need_credentials() {
    let server = builder().start();
    sql(&server, "create user ann@localhost identified by 'secret'");
    let address = address(&server);
    let without = porpoise_testkit::http_request(address, "GET", "/v1/tables", &[], "");
    assert_eq!(problem(&without), (401, 0));
    assert!(
        without
            .header("www-authenticate")
            .unwrap()
            .starts_with("Basic")
    );
    assert_eq!(basic(&server, ANN).get("/v1/tables").status, 200);
    // By the cached hash.
    assert_eq!(basic(&server, ANN).get("/v1/tables").status, 200);
    assert_eq!(
        problem(&basic(&server, ANN_OTHER).get("/v1/tables")),
        (401, 1045)
    );
    assert_eq!(
        problem(&basic(&server, "bm9ib2R5Ong=").get("/v1/tables")),
        (401, 1045)
    );
    assert_eq!(problem(&basic(&server, "!").get("/v1/tables")), (401, 0));
    sql(&server, "alter user ann@localhost account lock");
    assert_eq!(problem(&basic(&server, ANN).get("/v1/tables")), (403, 3118));
    sql(
        &server,
        "alter user ann@localhost account unlock require ssl",
    );
    assert_eq!(problem(&basic(&server, ANN).get("/v1/tables")), (401, 1045));
    // The document needs none.
    let document = porpoise_testkit::http_request(address, "GET", "/v1/openapi.json", &[], "");
    assert_eq!(document.status, 200);
    assert_eq!(body(&document)["openapi"], "3.1.0");
}

#[test]
fn tokens_end_when_they_are_revoked_and_with_the_password() {
    let server = builder().start();
    sql(&server, "create user ann@localhost identified by 'secret'");
    let ann = basic(&server, ANN);
    let issue = |client: &Client| {
        let reply = client.send("POST", "/v1/token", &[], "");
        assert_eq!(reply.status, 201, "{reply:?}");
        let token = body(&reply);
        assert_eq!(
            (&token["token_type"], &token["expires_in"]),
            (&json!("Bearer"), &json!(3600))
        );
        client.with_token(token["token"].as_str().unwrap())
    };
    let (first, second) = (issue(&ann), issue(&ann));
    assert_eq!(first.get("/v1/tables").status, 200);
    assert_eq!(problem(&first.send("POST", "/v1/token", &[], "")), (403, 0));
    assert_eq!(first.delete("/v1/token").status, 204);
    assert_eq!(problem(&first.get("/v1/tables")), (401, 0));
    assert_eq!(second.get("/v1/tables").status, 200);
    sql(&server, "rename user ann@localhost to bea@localhost");
    assert_eq!(second.get("/v1/tables").status, 200);
    sql(&server, "alter user bea@localhost account lock");
    assert_eq!(problem(&second.get("/v1/tables")), (403, 3118));
    sql(&server, "alter user bea@localhost account unlock");
    let third = issue(&basic(&server, "YmVhOnNlY3JldA=="));
    sql(&server, "alter user bea@localhost identified by 'other'");
    assert_eq!(problem(&third.get("/v1/tables")), (401, 0));
    assert_eq!(problem(&ann.with_token("00").get("/v1/tables")), (401, 0));
}

#[test]
fn privileges_are_those_of_the_account() {
    let server = builder().start();
    sql(
        &server,
        "create database shop; create table shop.item (id int primary key, name varchar(10), cost int);
         create table shop.secret (id int primary key); insert into shop.item values (1, 'a', 5);
         create user ann@localhost identified by 'secret'; grant select (id, name) on shop.item to ann@localhost;",
    );
    let ann = basic(&server, ANN);
    let path = "/v1/tables/shop/item/rows/1";
    assert_eq!(body(&ann.get(path)), json!({"id": 1, "name": "a"}));
    assert_eq!(
        problem(&ann.get(&format!("{path}?columns=cost"))),
        (422, 1054)
    );
    assert_eq!(
        problem(&ann.json("PATCH", path, &json!({"name": "b"}))),
        (403, 1142)
    );
    assert_eq!(problem(&ann.delete(path)), (403, 1142));
    assert_eq!(
        problem(&ann.json("PUT", path, &json!({"name": "b"}))),
        (403, 1142)
    );
    // Whether a table exists is not revealed.
    assert_eq!(problem(&ann.get("/v1/tables/shop/secret")), (403, 1142));
    assert_eq!(problem(&ann.get("/v1/tables/shop/nothing")), (403, 1142));
    assert_eq!(
        body(&ann.get("/v1/tables")),
        json!({"tables": [{"database": "shop", "table": "item"}]})
    );
    assert_eq!(
        problem(&ann.statement("select cost from shop.item", &json!([]))),
        (403, 1143)
    );
    sql(&server, "grant update (name) on shop.item to ann@localhost");
    assert_eq!(ann.json("PATCH", path, &json!({"name": "b"})).status, 200);
}

#[test]
fn tls_can_be_required() {
    let server = builder().arg("--rest-tls", "required").start();
    let client = Client::root(&server);
    assert_eq!(problem(&client.get("/v1/tables")), (403, 3159));
    let url = format!("https://{}/v1/tables", client.address);
    let curl = std::process::Command::new("curl")
        .args(["-sSk", "-u", "root:", &url])
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&curl.stdout);
    assert_eq!(printed, "{\"tables\":[]}", "{curl:?}");
}

#[test]
fn logins_are_in_the_audit_log() {
    let server = builder().arg("--audit-log", "audit.json").start();
    sql(&server, "create user ann@localhost identified by 'secret'");
    for encoded in [ANN, ANN, ANN_OTHER] {
        basic(&server, encoded).get("/v1/tables");
    }
    let log = std::fs::read_to_string(server.data_dir.join("audit.json")).unwrap();
    let logins: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("\"rest\""))
        .collect();
    assert_eq!(logins.len(), 2, "{log}");
    assert!(!log.contains("secret") || !log.contains("other"), "{log}");
}
