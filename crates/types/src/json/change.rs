//! Changes of documents (manual, "Functions That Modify JSON Values").

use super::path::Path;
use super::{Json, Step};

/// Operation of JSON_SET, JSON_INSERT and JSON_REPLACE at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Replaces an existing value, or adds one.
    Set,
    /// Adds only.
    Insert,
    /// Replaces only.
    Replace,
}

/// Sets the value at a path without wildcards. If the parent does not exist, the document is
/// unchanged; a parent that is not an array counts as an array of one element.
pub fn change(document: &mut Json, path: &Path, value: Json, how: Change) {
    let Some((last, parents)) = path.steps.split_last() else {
        if how != Change::Insert {
            *document = value;
        }
        return;
    };
    let Some(parent) = find(document, parents) else {
        return;
    };
    match (last, parent) {
        (Step::Member(name), Json::Object(members)) => {
            let there = members.get(name).is_some();
            if there && how != Change::Insert || !there && how != Change::Replace {
                members.insert(name.clone(), value);
            }
        }
        (Step::Element(index), Json::Array(items)) => {
            let at = index.at(items.len());
            match at.and_then(|at| items.get_mut(at)) {
                Some(item) if how != Change::Insert => *item = value,
                Some(_) => {}
                None if how == Change::Replace => {}
                // Before the first element, or after the last one.
                None if at.is_none() => items.insert(0, value),
                None => items.push(value),
            }
        }
        (Step::Element(index), other) => match index.at(1) {
            Some(0) if how != Change::Insert => *other = value,
            Some(0) => {}
            _ if how == Change::Replace => {}
            at => {
                let own = std::mem::replace(other, Json::Null);
                *other = Json::Array(match at {
                    None => vec![value, own],
                    Some(_) => vec![own, value],
                });
            }
        },
        _ => {}
    }
}

/// Returns the value at path legs without wildcards.
fn find<'j>(mut at: &'j mut Json, steps: &[Step]) -> Option<&'j mut Json> {
    for step in steps {
        at = match (step, at) {
            (Step::Member(name), Json::Object(members)) => members.get_mut(name)?,
            (Step::Element(index), Json::Array(items)) => {
                let position = index.at(items.len())?;
                items.get_mut(position)?
            }
            (Step::Element(index), other) if index.at(1) == Some(0) => other,
            _ => return None,
        };
    }
    Some(at)
}

/// Removes the value at a path without wildcards; the path is not `$`.
pub fn remove(document: &mut Json, path: &Path) {
    let Some((last, parents)) = path.steps.split_last() else {
        return;
    };
    match (last, find(document, parents)) {
        (Step::Member(name), Some(Json::Object(members))) => {
            members.remove(name);
        }
        (Step::Element(index), Some(Json::Array(items))) => {
            if let Some(at) = index.at(items.len()).filter(|at| *at < items.len()) {
                items.remove(at);
            }
        }
        _ => {}
    }
}

impl Json {
    /// JSON_ARRAY_APPEND: appends to the array at a path; another value there becomes an array first.
    pub fn append(&mut self, path: &Path, value: Json) {
        match find(self, &path.steps) {
            Some(Json::Array(items)) => items.push(value),
            Some(other) => {
                let own = std::mem::replace(other, Json::Null);
                *other = Json::Array(vec![own, value]);
            }
            None => {}
        }
    }

    /// JSON_ARRAY_INSERT: inserts before the element at a path. Returns false if the path does not
    /// end in an element.
    pub fn array_insert(&mut self, path: &Path, value: Json) -> bool {
        let Some((Step::Element(index), parents)) = path.steps.split_last() else {
            return false;
        };
        if let Some(Json::Array(items)) = find(self, parents) {
            let at = index.at(items.len()).unwrap_or(0).min(items.len());
            items.insert(at, value);
        }
        true
    }
}

/// JSON_MERGE_PRESERVE: arrays are concatenated, objects merged member by member, other values
/// become elements of one array.
#[must_use]
pub fn merge_preserve(a: Json, b: Json) -> Json {
    match (a, b) {
        (Json::Object(mut a), Json::Object(b)) => {
            for (key, value) in b.into_members() {
                let merged = match a.remove(&key) {
                    Some(own) => merge_preserve(own, value),
                    None => value,
                };
                a.insert(key, merged);
            }
            Json::Object(a)
        }
        (a, b) => {
            let mut items = into_items(a);
            items.extend(into_items(b));
            Json::Array(items)
        }
    }
}

fn into_items(value: Json) -> Vec<Json> {
    match value {
        Json::Array(items) => items,
        other => vec![other],
    }
}

/// JSON_MERGE_PATCH, as defined in RFC 7396.
#[must_use]
pub fn merge_patch(target: Json, patch: Json) -> Json {
    let Json::Object(patch) = patch else {
        return patch;
    };
    let mut members = match target {
        Json::Object(members) => members,
        _ => super::Object::default(),
    };
    for (key, value) in patch.into_members() {
        let own = members.remove(&key);
        if value != Json::Null {
            members.insert(key, merge_patch(own.unwrap_or(Json::Null), value));
        }
    }
    Json::Object(members)
}
