//! The OpenAPI document, made from the table of operations ([`super::routes`]).

use super::batch::MAX_OPERATIONS;
use super::routes::{Answer, ROUTES, Route, parameter_of};
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// The document.
pub(super) static DOCUMENT: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut text = document().to_string().into_bytes();
    text.push(b'\n');
    text
});

fn document() -> Value {
    let mut paths = Map::new();
    for route in ROUTES {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        if let Some(path) = path.as_object_mut() {
            path.insert(route.method.to_ascii_lowercase(), operation(route));
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Porpoise",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Rows by key, batches and SQL statements over HTTP. Values of columns are encoded by type: see docs/guide/rest.md.",
        },
        "security": [{"basic": []}, {"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
            "schemas": schemas(),
        },
    })
}

fn schema(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn operation(route: &Route) -> Value {
    let in_path = route.path.split('/').filter_map(parameter_of).map(|name| {
        json!({
            "name": name,
            "in": "path",
            "required": true,
            "description": if name == "key" {
                "Values of the key's columns, percent-encoded, between commas."
            } else {
                "A name, percent-encoded."
            },
            "schema": {"type": "string", "minLength": 1},
        })
    });
    let others = route.parameters.iter().map(|parameter| {
        let kind = match parameter.kind {
            "integer" => json!({"type": "integer", "minimum": 1, "maximum": u32::MAX}),
            kind => json!({"type": kind}),
        };
        json!({
            "name": parameter.name,
            "in": parameter.place,
            "description": parameter.text,
            "schema": kind,
        })
    });
    let mut answers: Map<String, Value> = route
        .answers
        .iter()
        .map(|a| (a.status.to_string(), answer(route, a)))
        .collect();
    let problem = json!({"application/problem+json": {"schema": schema("Problem")}});
    answers.insert(
        "default".to_owned(),
        json!({"description": "The request failed.", "content": problem}),
    );
    let mut operation = json!({
        "operationId": format!("{:?}", route.endpoint),
        "summary": route.text,
        "parameters": in_path.chain(others).collect::<Vec<_>>(),
        "responses": answers,
    });
    if let (Some(name), Some(operation)) = (route.body, operation.as_object_mut()) {
        let content = json!({"application/json": {"schema": schema(name)}});
        let body = json!({"required": true, "content": content});
        operation.insert("requestBody".to_owned(), body);
    }
    if let (true, Some(operation)) = (route.is_public(), operation.as_object_mut()) {
        operation.insert("security".to_owned(), json!([]));
    }
    operation
}

fn answer(route: &Route, answer: &Answer) -> Value {
    let mut described = json!({"description": answer.text});
    let Some(members) = described.as_object_mut() else {
        return described;
    };
    if let Some(name) = answer.schema {
        let kind = if route.streams_events() {
            "text/event-stream"
        } else {
            "application/json"
        };
        let mut content = json!({kind: {"schema": schema(name)}});
        if let (true, Some(kinds)) = (route.streams_rows(), content.as_object_mut()) {
            kinds.insert("application/x-ndjson".to_owned(), json!({}));
            kinds.insert(super::arrow::MEDIA_TYPE.to_owned(), json!({}));
        }
        members.insert("content".to_owned(), content);
    }
    if answer.has_tag {
        let tag = json!({"ETag": {
            "description": "The version of the row.",
            "schema": {"type": "string"},
        }});
        members.insert("headers".to_owned(), tag);
    }
    described
}

fn object(required: &[&str], properties: Value) -> Value {
    json!({
        "type": "object",
        "required": required,
        "properties": properties,
        "additionalProperties": false,
    })
}

fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

fn text() -> Value {
    json!({"type": "string"})
}

fn truth() -> Value {
    json!({"type": "boolean"})
}

fn digits() -> Value {
    json!({"type": "string", "pattern": "^[0-9]+$"})
}

/// The schemas of all bodies, by name.
fn schemas() -> Map<String, Value> {
    let all = [
        shared_schemas(),
        table_schemas(),
        batch_schemas(),
        statement_schemas(),
        change_schemas(),
    ];
    let members = all.into_iter().filter_map(|schemas| match schemas {
        Value::Object(members) => Some(members),
        _ => None,
    });
    members.flatten().collect()
}

fn shared_schemas() -> Value {
    json!({
        "Document": {"type": "object"},
        "Problem": object(&["type", "title", "status", "detail"], json!({
            "type": text(),
            "title": text(),
            "status": {"type": "integer"},
            "code": {"type": "integer", "description": "MySQL's error number."},
            "sqlstate": {"type": "string", "description": "The SQLSTATE."},
            "detail": text(),
        })),
        "Token": object(&["token", "token_type", "expires_in"], json!({
            "token": text(),
            "token_type": text(),
            "expires_in": {"type": "integer", "description": "Seconds."},
        })),
        "Row": {
            "type": "object",
            "description": "Columns and their values.",
            "additionalProperties": schema("Value"),
        },
        "Value": {
            "description": "A value, encoded by the type of its column.",
            "type": ["null", "boolean", "number", "string", "array", "object"],
        },
        "Written": object(&["version"], json!({"version": digits(), "generated_id": digits()})),
    })
}

fn table_schemas() -> Value {
    let name = object(
        &["database", "table"],
        json!({"database": text(), "table": text()}),
    );
    let column = object(
        &[
            "name",
            "type",
            "nullable",
            "has_default",
            "generated",
            "auto_increment",
        ],
        json!({
            "name": text(),
            "type": text(),
            "nullable": truth(),
            "has_default": truth(),
            "generated": truth(),
            "auto_increment": truth(),
        }),
    );
    let key = json!({"name": text(), "columns": list(text())});
    json!({
        "Tables": object(&["tables"], json!({"tables": list(name)})),
        "Table": object(&["database", "table", "columns", "keys"], json!({
            "database": text(),
            "table": text(),
            "columns": list(column),
            "keys": list(object(&["name", "columns"], key)),
        })),
    })
}

fn optional(schema: Value) -> Value {
    json!({"anyOf": [schema, {"type": "null"}]})
}

fn time_limit() -> Value {
    json!({"type": ["integer", "null"], "minimum": 1, "maximum": u32::MAX})
}

fn batch_schemas() -> Value {
    let result = json!({
        "status": {
            "type": "string",
            "enum": ["ok", "not_found", "condition_failed", "failed", "aborted"],
        },
        "version": digits(),
        "generated_id": digits(),
        "created": truth(),
        "row": schema("Row"),
        "error": schema("Problem"),
    });
    let operations = json!({
        "type": "array",
        "maxItems": MAX_OPERATIONS,
        "items": schema("Operation"),
    });
    json!({
        "Batch": object(&["operations"], json!({
            "atomic": truth(),
            "time_limit_ms": time_limit(),
            "operations": operations,
        })),
        "Operation": object(&["op", "database", "table"], json!({
            "op": {"type": "string", "enum": ["read", "insert", "update", "upsert", "delete"]},
            "database": text(),
            "table": text(),
            "by": optional(text()),
            "key": optional(list(schema("Value"))),
            "columns": optional(list(text())),
            "values": optional(schema("Row")),
            "add": optional(schema("Row")),
            "if_version": optional(digits()),
            "if_equals": optional(schema("Row")),
        })),
        "BatchResults": object(&["results"], json!({"results": list(object(&["status"], result))})),
    })
}

fn statement_schemas() -> Value {
    let number = || json!({"type": "integer", "minimum": 0});
    let column = object(&["name", "type"], json!({"name": text(), "type": text()}));
    let parameter = json!({
        "anyOf": [
            {"type": ["null", "boolean", "number", "string"]},
            object(&["base64"], json!({"base64": text()})),
        ],
    });
    json!({
        "Statement": object(&["statement"], json!({
            "statement": text(),
            "parameters": list(parameter),
            "database": optional(text()),
            "time_limit_ms": time_limit(),
        })),
        "StatementResult": object(&["columns", "rows"], json!({
            "columns": list(column),
            "rows": list(list(schema("Value"))),
            "affected_rows": number(),
            "last_insert_id": digits(),
            "warnings": number(),
            "error": schema("Problem"),
        })),
    })
}

/// The events of a change stream: the type of an event names the schema of its data.
fn change_schemas() -> Value {
    let key = || list(schema("Value"));
    let place = || json!({"file": text(), "position": digits()});
    let name = object(
        &["database", "table"],
        json!({"database": text(), "table": text()}),
    );
    let mut commit = json!({"gtid": optional(text()), "time": text()});
    if let (Some(commit), Value::Object(place)) = (commit.as_object_mut(), place()) {
        commit.extend(place);
    }
    json!({
        "ChangeEvents": {
            "type": "string",
            "description": "Server-sent events. Only start and commit events, and heartbeats, have an id: a position.",
            "x-events": {
                "start": schema("ChangeStart"),
                "change": schema("Change"),
                "definition": schema("ChangedDefinition"),
                "commit": schema("ChangeCommit"),
                "error": schema("Problem"),
            },
        },
        "ChangeStart": object(&["file", "position"], place()),
        "Change": object(&["op", "database", "table"], json!({
            "op": {"type": "string", "enum": ["insert", "update", "delete"]},
            "database": text(),
            "table": text(),
            "key": key(),
            "old_key": key(),
            "row": schema("Row"),
            "old": schema("Row"),
        })),
        "ChangedDefinition": object(&["kind", "tables"], json!({
            "kind": {
                "type": "string",
                "enum": ["create", "alter", "truncate", "drop", "rename", "unknown"],
            },
            "database": text(),
            "tables": list(name),
        })),
        "ChangeCommit": object(&["gtid", "time", "file", "position"], commit),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of schemas that a part of the document refers to.
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                if let Some(Value::String(name)) = members.get("$ref") {
                    found.push(name.rsplit('/').next().unwrap().to_owned());
                }
                members.values().for_each(|v| references(v, found));
            }
            Value::Array(items) => items.iter().for_each(|v| references(v, found)),
            _ => {}
        }
    }

    #[test]
    fn the_document_has_every_operation_and_schema() {
        let document: Value = serde_json::from_slice(&DOCUMENT).unwrap();
        for route in ROUTES {
            let method = route.method.to_ascii_lowercase();
            assert!(
                document["paths"][route.path][&method].is_object(),
                "{route:?}"
            );
        }
        let mut found = Vec::new();
        references(&document, &mut found);
        let schemas = document["components"]["schemas"].as_object().unwrap();
        for name in &found {
            assert!(schemas.contains_key(name), "{name}");
        }
        for name in schemas.keys() {
            assert!(found.contains(name), "{name} is not used");
        }
    }
}
