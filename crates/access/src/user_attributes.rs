//! `mysql.user.User_attributes`: a JSON object, as in MySQL.
//!
//! | key | value |
//! |---|---|
//! | `metadata` | ATTRIBUTE and COMMENT: an object |
//! | `Restrictions` | `[{"Database": "d", "Privileges": ["INSERT"]}]` |
//! | `additional_password` | the stored secret of the second password |
//!
//! An absent key means that the account has no such attribute. Old data directories store the
//! metadata object itself in the column: an object that has a key or a type of value not in the
//! table is read as metadata.

use crate::restrictions::Restrictions;
use porpoise_types::json::{self, Json, Object};

/// The column, decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UserAttributes {
    /// The text of a JSON object.
    pub(crate) metadata: Option<String>,
    pub(crate) restrictions: Restrictions,
    pub(crate) second_secret: Option<String>,
}

const METADATA: &str = "metadata";
const RESTRICTIONS: &str = "Restrictions";
const SECOND_PASSWORD: &str = "additional_password";

fn text_of(json: &Json) -> String {
    String::from_utf8_lossy(&json.to_text()).into_owned()
}

impl UserAttributes {
    /// Reads the column. A text that is not a JSON object means no attributes.
    pub(crate) fn parse(text: &str) -> UserAttributes {
        let Ok(Json::Object(object)) = json::parse(text.as_bytes()) else {
            return UserAttributes::default();
        };
        UserAttributes::of(&object).unwrap_or_else(|| UserAttributes {
            metadata: Some(text_of(&Json::Object(object))),
            ..UserAttributes::default()
        })
    }

    /// The members; `None` if the object is metadata alone.
    fn of(object: &Object) -> Option<UserAttributes> {
        let mut all = UserAttributes::default();
        for (key, value) in object.iter() {
            match (key, value) {
                (METADATA, Json::Object(_)) => all.metadata = Some(text_of(value)),
                (RESTRICTIONS, Json::Array(list)) => {
                    all.restrictions = Restrictions::from_json(list);
                }
                (SECOND_PASSWORD, Json::String(secret)) => {
                    all.second_secret = Some(secret.clone());
                }
                _ => return None,
            }
        }
        Some(all)
    }

    /// The column's text; `None`: NULL.
    pub(crate) fn to_text(&self) -> Option<String> {
        let mut members = Vec::new();
        let metadata = self.metadata.as_ref();
        if let Some(metadata) = metadata.and_then(|m| json::parse(m.as_bytes()).ok()) {
            members.push((METADATA.to_owned(), metadata));
        }
        if !self.restrictions.is_empty() {
            members.push((RESTRICTIONS.to_owned(), self.restrictions.to_json()));
        }
        if let Some(secret) = &self.second_secret {
            members.push((SECOND_PASSWORD.to_owned(), Json::String(secret.clone())));
        }
        if members.is_empty() {
            return None;
        }
        Some(text_of(&Json::Object(Object::from_members(members))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privileges::Privileges;

    #[test]
    fn the_column_round_trips() {
        let mut all = UserAttributes {
            metadata: Some("{\"Restrictions\": []}".to_owned()),
            ..UserAttributes::default()
        };
        assert_eq!(UserAttributes::parse(&all.to_text().unwrap()), all);
        all.restrictions.add("world", Privileges::INSERT);
        all.second_secret = Some("$A$005$\u{1}\"\\".to_owned());
        assert_eq!(UserAttributes::parse(&all.to_text().unwrap()), all);
        assert_eq!(UserAttributes::default().to_text(), None);
        let restricted = UserAttributes {
            restrictions: all.restrictions,
            ..UserAttributes::default()
        };
        let text = "{\"Restrictions\": [{\"Database\": \"world\", \"Privileges\": [\"INSERT\"]}]}";
        assert_eq!(restricted.to_text().unwrap(), text);
    }

    #[test]
    fn metadata_of_the_first_layout_is_kept() {
        for text in [
            "{\"comment\": \"it's\"}",
            "{\"comment\": \"x\", \"metadata\": {}}",
            "{\"Restrictions\": 1}",
            "{\"additional_password\": null}",
        ] {
            let read = UserAttributes::parse(text);
            assert_eq!(read.metadata.as_deref(), Some(text));
            assert!(read.restrictions.is_empty() && read.second_secret.is_none());
            assert_eq!(UserAttributes::parse(&read.to_text().unwrap()), read);
        }
        for text in ["", "[1]", "no JSON", "{}"] {
            assert_eq!(UserAttributes::parse(text), UserAttributes::default());
        }
    }
}
