//! Validation of documents by JSON schemas of draft 4 (manual, "JSON Schema Validation Functions").
//!
//! The schema is interpreted beside the document. The first failure is reported. The checks of a value are, in
//! this order: its type and the keywords of its kind, its members or elements in the order of the document, and
//! the keywords for the whole value (`enum` and combinations of schemas). As in MySQL, a keyword whose value has the wrong type is ignored, and so is a
//! pattern that is not a regular expression; references must be inside of the schema.
//!
//! Invariant: validation recurses only into a part of the document or of the schema; references that
//! lead from one to the next without either are counted and refused.

use super::super::regexp::matches_pattern;
use super::super::{Call, Function, Nullable};
use super::{json, truth, yes};
use crate::error::{Result, SqlError};
use porpoise_base::interrupt;
use porpoise_types::ValueRef;
use porpoise_types::json::{self as doc, Json, Object};
use std::cmp::Ordering;

/// Maximum number of schemas around a value.
const MAX_SCHEMAS: usize = 200;

/// The first violation of a schema by a document.
struct Failure {
    keyword: &'static str,
    /// Location in the document, as a JSON pointer in a URI fragment.
    document: String,
    /// Location in the schema.
    schema: String,
}

impl Failure {
    fn reason(&self) -> String {
        format!(
            "The JSON document location '{}' failed requirement '{}' at JSON Schema location '{}'",
            self.document, self.keyword, self.schema
        )
    }
}

/// A part of a document or a schema with its location.
#[derive(Clone, Copy)]
struct Part<'j, 'p> {
    value: &'j Json,
    at: &'p str,
}

impl<'j> Part<'j, '_> {
    fn below(&self, token: &str) -> String {
        let mut at = self.at.to_owned();
        append_token(token, &mut at);
        at
    }

    /// A failure of a keyword here.
    fn fails(&self, keyword: &'static str, schema: &Part<'_, '_>) -> Outcome {
        Ok(Some(Failure {
            keyword,
            document: self.at.to_owned(),
            schema: schema.at.to_owned(),
        }))
    }

    fn member(&self, name: &str) -> Option<&'j Json> {
        match self.value {
            Json::Object(members) => members.get(name),
            _ => None,
        }
    }

    fn array(&self, name: &str) -> Option<&'j [Json]> {
        match self.member(name) {
            Some(Json::Array(items)) => Some(items),
            _ => None,
        }
    }

    fn object(&self, name: &str) -> Option<&'j Object> {
        match self.member(name) {
            Some(Json::Object(members)) => Some(members),
            _ => None,
        }
    }

    fn count(&self, name: &str) -> Option<usize> {
        match self.member(name) {
            Some(Json::Int(n)) => usize::try_from(*n).ok(),
            _ => None,
        }
    }

    fn number(&self, name: &str) -> Option<&'j Json> {
        self.member(name).filter(|v| is_number(v))
    }

    fn is_true(&self, name: &str) -> bool {
        matches!(self.member(name), Some(Json::Bool(true)))
    }

    fn is_false(&self, name: &str) -> bool {
        matches!(self.member(name), Some(Json::Bool(false)))
    }
}

/// The first failure; `None` if the value is valid.
type Outcome = Result<Option<Failure>>;

/// Appends a token of a JSON pointer (RFC 6901), encoded for a URI fragment.
fn append_token(token: &str, at: &mut String) {
    at.push('/');
    for byte in token.bytes() {
        match byte {
            b'~' => at.push_str("~0"),
            b'/' => at.push_str("~1"),
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'.' | b'_' => {
                at.push(char::from(byte));
            }
            _ => at.push_str(&format!("%{byte:02X}")),
        }
    }
}

fn is_number(value: &Json) -> bool {
    matches!(
        value,
        Json::Int(_) | Json::UInt(_) | Json::Double(_) | Json::Decimal(_)
    )
}

/// Whether a value is of a type of the schema language.
fn is_type(value: &Json, ty: &Json) -> bool {
    let Json::String(ty) = ty else {
        return false;
    };
    match ty.as_str() {
        "null" => matches!(value, Json::Null),
        "boolean" => matches!(value, Json::Bool(_)),
        "object" => matches!(value, Json::Object(_)),
        "array" => matches!(value, Json::Array(_)),
        "string" => matches!(value, Json::String(_)),
        "integer" => matches!(value, Json::Int(_) | Json::UInt(_)),
        "number" => is_number(value),
        _ => false,
    }
}

/// Validates documents by one schema.
struct Validator<'j> {
    root: &'j Json,
    /// Number of schemas around the current value.
    depth: usize,
}

impl<'j> Validator<'j> {
    /// Validates a value by a schema. A schema that is not an object allows everything.
    fn value(&mut self, value: Part<'_, '_>, schema: Part<'j, '_>) -> Outcome {
        interrupt::check()?;
        if !matches!(schema.value, Json::Object(_)) {
            return Ok(None);
        }
        if self.depth >= MAX_SCHEMAS {
            return Err(SqlError::not_supported("references in JSON Schema"));
        }
        self.depth += 1;
        let found = match schema.member("$ref") {
            Some(Json::String(reference)) => match self.referenced(reference) {
                Some((target, at)) => self.value(
                    value,
                    Part {
                        value: target,
                        at: &at,
                    },
                ),
                None => Ok(None),
            },
            _ => self.keywords(value, schema),
        };
        self.depth -= 1;
        found
    }

    /// The part of the schema that a reference `#/a/b` names, with its location.
    fn referenced(&self, reference: &str) -> Option<(&'j Json, String)> {
        let pointer = reference.strip_prefix('#')?;
        let mut part = self.root;
        let mut at = "#".to_owned();
        for token in pointer.split('/').skip(1) {
            let token = token.replace("~1", "/").replace("~0", "~");
            part = match part {
                Json::Object(members) => members.get(&token)?,
                Json::Array(items) => items.get(token.parse::<usize>().ok()?)?,
                _ => return None,
            };
            append_token(&token, &mut at);
        }
        Some((part, at))
    }

    fn keywords(&mut self, value: Part<'_, '_>, schema: Part<'j, '_>) -> Outcome {
        let typed = match schema.member("type") {
            Some(Json::Array(types)) => types.iter().any(|ty| is_type(value.value, ty)),
            Some(ty @ Json::String(_)) => is_type(value.value, ty),
            _ => true,
        };
        if !typed {
            return value.fails("type", &schema);
        }
        let found = match value.value {
            Json::String(text) => string(text, value, schema)?,
            Json::Array(items) => self.array(items, value, schema)?,
            Json::Object(members) => self.object(members, value, schema)?,
            number if is_number(number) => match number_keyword(number, schema) {
                Some(keyword) => return value.fails(keyword, &schema),
                None => None,
            },
            _ => None,
        };
        match found {
            Some(failure) => Ok(Some(failure)),
            None => self.whole(value, schema),
        }
    }

    /// ENUM and combinations of schemas.
    fn whole(&mut self, value: Part<'_, '_>, schema: Part<'j, '_>) -> Outcome {
        if let Some(allowed) = schema.array("enum")
            && !allowed.iter().any(|a| doc::equal(a, value.value))
        {
            return value.fails("enum", &schema);
        }
        for keyword in ["allOf", "anyOf", "oneOf"] {
            let Some(schemas) = schema.array(keyword) else {
                continue;
            };
            let mut valid = 0;
            for inner in schemas {
                let inner = Part {
                    value: inner,
                    at: schema.at,
                };
                valid += usize::from(self.value(value, inner)?.is_none());
            }
            let met = match keyword {
                "allOf" => valid == schemas.len(),
                "anyOf" => valid > 0,
                _ => valid == 1,
            };
            if !met {
                return value.fails(keyword, &schema);
            }
        }
        if let Some(inner @ Json::Object(_)) = schema.member("not") {
            let inner = Part {
                value: inner,
                at: schema.at,
            };
            if self.value(value, inner)?.is_none() {
                return value.fails("not", &schema);
            }
        }
        Ok(None)
    }

    fn array(&mut self, items: &[Json], value: Part<'_, '_>, schema: Part<'j, '_>) -> Outcome {
        for (at, item) in items.iter().enumerate() {
            let here = value.below(&at.to_string());
            let item = Part {
                value: item,
                at: &here,
            };
            let (inner, location) = match schema.member("items") {
                Some(inner @ Json::Object(_)) => (Some(inner), schema.below("items")),
                Some(Json::Array(inner)) => match inner.get(at) {
                    Some(inner) => {
                        let mut location = schema.below("items");
                        append_token(&at.to_string(), &mut location);
                        (Some(inner), location)
                    }
                    None if schema.is_false("additionalItems") => {
                        return item.fails("items", &schema);
                    }
                    None => (
                        schema.member("additionalItems"),
                        schema.below("additionalItems"),
                    ),
                },
                _ => (None, String::new()),
            };
            if let Some(inner) = inner {
                let inner = Part {
                    value: inner,
                    at: &location,
                };
                if let Some(failure) = self.value(item, inner)? {
                    return Ok(Some(failure));
                }
            }
            let before = items.get(..at).unwrap_or_default();
            if schema.is_true("uniqueItems") && before.iter().any(|b| doc::equal(b, item.value)) {
                return item.fails("uniqueItems", &schema);
            }
        }
        if schema.count("minItems").is_some_and(|n| items.len() < n) {
            return value.fails("minItems", &schema);
        }
        if schema.count("maxItems").is_some_and(|n| items.len() > n) {
            return value.fails("maxItems", &schema);
        }
        Ok(None)
    }

    fn object(&mut self, members: &Object, value: Part<'_, '_>, schema: Part<'j, '_>) -> Outcome {
        for (name, member) in members.iter() {
            let here = value.below(name);
            let member = Part {
                value: member,
                at: &here,
            };
            if let Some(failure) = self.member(name, member, schema)? {
                return Ok(Some(failure));
            }
        }
        let required = schema.array("required").unwrap_or_default();
        if !has_all(members, required) {
            return value.fails("required", &schema);
        }
        let count = members.len();
        if schema.count("minProperties").is_some_and(|n| count < n) {
            return value.fails("minProperties", &schema);
        }
        if schema.count("maxProperties").is_some_and(|n| count > n) {
            return value.fails("maxProperties", &schema);
        }
        let Some(dependencies) = schema.object("dependencies") else {
            return Ok(None);
        };
        for (name, dependency) in dependencies.iter() {
            let met = match dependency {
                _ if members.get(name).is_none() => true,
                Json::Array(names) => has_all(members, names),
                inner => {
                    let inner = Part {
                        value: inner,
                        at: schema.at,
                    };
                    self.value(value, inner)?.is_none()
                }
            };
            if !met {
                return value.fails("dependencies", &schema);
            }
        }
        Ok(None)
    }

    /// Validates a member of an object by the schemas for its name.
    fn member(&mut self, name: &str, member: Part<'_, '_>, schema: Part<'j, '_>) -> Outcome {
        let mut known = false;
        if let Some(inner) = schema.object("properties").and_then(|p| p.get(name)) {
            known = true;
            let mut location = schema.below("properties");
            append_token(name, &mut location);
            let inner = Part {
                value: inner,
                at: &location,
            };
            if let Some(failure) = self.value(member, inner)? {
                return Ok(Some(failure));
            }
        }
        if let Some(patterns) = schema.object("patternProperties") {
            for (pattern, inner) in patterns.iter() {
                if matches_pattern(pattern, name)? != Some(true) {
                    continue;
                }
                known = true;
                let inner = Part {
                    value: inner,
                    at: schema.at,
                };
                if self.value(member, inner)?.is_some() {
                    return member.fails("patternProperties", &schema);
                }
            }
        }
        if known {
            return Ok(None);
        }
        match schema.member("additionalProperties") {
            Some(Json::Bool(false)) => member.fails("additionalProperties", &schema),
            Some(inner @ Json::Object(_)) => {
                let location = schema.below("additionalProperties");
                let inner = Part {
                    value: inner,
                    at: &location,
                };
                self.value(member, inner)
            }
            _ => Ok(None),
        }
    }
}

/// Whether an object has all members of these names.
fn has_all(members: &Object, names: &[Json]) -> bool {
    names.iter().all(|name| match name {
        Json::String(name) => members.get(name).is_some(),
        _ => true,
    })
}

fn string(text: &str, value: Part<'_, '_>, schema: Part<'_, '_>) -> Outcome {
    let (least, most) = (schema.count("minLength"), schema.count("maxLength"));
    if least.is_some() || most.is_some() {
        let count = text.chars().count();
        if least.is_some_and(|n| count < n) {
            return value.fails("minLength", &schema);
        }
        if most.is_some_and(|n| count > n) {
            return value.fails("maxLength", &schema);
        }
    }
    if let Some(Json::String(pattern)) = schema.member("pattern")
        && matches_pattern(pattern, text)? == Some(false)
    {
        return value.fails("pattern", &schema);
    }
    Ok(None)
}

/// The keyword that a number fails.
fn number_keyword(number: &Json, schema: Part<'_, '_>) -> Option<&'static str> {
    if let Some(least) = schema.number("minimum") {
        match doc::order(number, least) {
            Ordering::Less => return Some("minimum"),
            Ordering::Equal if schema.is_true("exclusiveMinimum") => return Some("minimum"),
            _ => {}
        }
    }
    if let Some(most) = schema.number("maximum") {
        match doc::order(number, most) {
            Ordering::Greater => return Some("maximum"),
            Ordering::Equal if schema.is_true("exclusiveMaximum") => return Some("maximum"),
            _ => {}
        }
    }
    let factor = schema.number("multipleOf")?;
    let multiple = match (number, factor) {
        (_, factor) if double(factor) <= 0.0 => true,
        (Json::Int(n), Json::Int(factor)) => n.unsigned_abs() % factor.unsigned_abs().max(1) == 0,
        (Json::UInt(n), Json::Int(factor)) => n % factor.unsigned_abs().max(1) == 0,
        _ => {
            let (a, b) = (double(number).abs(), double(factor));
            a - (a / b).floor() * b <= 0.0
        }
    };
    (!multiple).then_some("multipleOf")
}

fn double(number: &Json) -> f64 {
    match number {
        Json::Int(v) => *v as f64,
        Json::UInt(v) => *v as f64,
        Json::Double(v) => *v,
        Json::Decimal(v) => v.to_f64(),
        _ => 0.0,
    }
}

/// Whether a schema refers to something outside of it.
fn has_foreign_reference(schema: &Json) -> bool {
    match schema {
        Json::Array(items) => items.iter().any(has_foreign_reference),
        Json::Object(members) => {
            matches!(members.get("$ref"), Some(Json::String(r)) if !r.starts_with('#'))
                || members.iter().any(|(_, v)| has_foreign_reference(v))
        }
        _ => false,
    }
}

/// The result of validating the second argument by the first; `None` if one is NULL.
fn validate(c: &Call<'_, '_>, name: &str) -> Result<Option<Option<Failure>>> {
    let Some(schema) = c.document(0, name)? else {
        return Ok(None);
    };
    if !matches!(schema, Json::Object(_)) {
        let text =
            format!("Invalid JSON type in argument 1 to function {name}; an object is required.");
        return Err(SqlError::new(3853, "22032", text));
    }
    if has_foreign_reference(&schema) {
        return Err(SqlError::not_supported("references in JSON Schema"));
    }
    let Some(document) = c.document(1, name)? else {
        return Ok(None);
    };
    let mut validator = Validator {
        root: &schema,
        depth: 0,
    };
    let (value, by) = (
        Part {
            value: &document,
            at: "#",
        },
        Part {
            value: &schema,
            at: "#",
        },
    );
    validator.value(value, by).map(Some)
}

fn valid<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let outcome = validate(c, "json_schema_valid")?;
    Ok(outcome.map_or(ValueRef::Null, |failure| yes(failure.is_none())))
}

fn report<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(outcome) = validate(c, "json_schema_validation_report")? else {
        return Ok(ValueRef::Null);
    };
    let mut members = vec![("valid".to_owned(), Json::Bool(outcome.is_none()))];
    if let Some(failure) = outcome {
        let texts = [
            ("reason", failure.reason()),
            ("schema-location", failure.schema),
            ("document-location", failure.document),
            ("schema-failed-keyword", failure.keyword.to_owned()),
        ];
        let texts = texts.into_iter();
        members.extend(texts.map(|(name, text)| (name.to_owned(), Json::String(text))));
    }
    c.document_result(&Json::Object(Object::from_members(members)))
}

/// The registry entries.
pub const FUNCTIONS: &[Function] = &[
    Function {
        name: "JSON_SCHEMA_VALID",
        args: (2, 2),
        constant: true,
        nullable: Nullable::IfArgument,
        ty: truth,
        run: valid,
        doc: "Whether a document is valid by a JSON schema.",
        example: (
            "JSON_SCHEMA_VALID('{\"type\": \"object\", \"required\": [\"a\"]}', '{\"a\": 1}')",
            "1",
        ),
    },
    Function {
        name: "JSON_SCHEMA_VALIDATION_REPORT",
        args: (2, 2),
        constant: true,
        nullable: Nullable::IfArgument,
        ty: json,
        run: report,
        doc: "The first failure of a document by a JSON schema.",
        example: (
            "JSON_SCHEMA_VALIDATION_REPORT('{\"type\": \"array\"}', '[]')",
            "{\"valid\": true}",
        ),
    },
];
