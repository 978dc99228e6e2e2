//! Query attributes: names and values that a client sends beside a statement, read by
//! `mysql_query_attribute_string()` (manual, "Query Attributes").

use super::{Param, SqlSession};
use porpoise_sql_expr::expr::eval::QueryAttribute;
use porpoise_types::{Collation, ValueRef};

impl SqlSession {
    /// Sets the attributes of the statements that run until [`Self::clear_query_attributes`].
    /// Attributes without a name cannot be read and are dropped, as on MySQL.
    pub fn set_query_attributes<'p>(
        &mut self,
        attributes: impl Iterator<Item = (&'p [u8], Param<'p>)>,
    ) {
        let named = attributes.filter(|(name, _)| !name.is_empty());
        let list = named.map(|(name, param)| QueryAttribute {
            name: self.decode(name).into_owned(),
            value: self.attribute_text(&param),
        });
        self.cx.env.query_attributes = list.collect();
    }

    /// Removes the attributes after their statement.
    pub fn clear_query_attributes(&mut self) {
        self.cx.env.query_attributes = Vec::new();
    }

    /// The value as text, in which invalid UTF-8 becomes replacement characters; `None` for NULL.
    fn attribute_text(&self, param: &Param<'_>) -> Option<Vec<u8>> {
        let text = match param.value {
            ValueRef::Null => return None,
            ValueRef::Bytes(bytes) if param.ty.collation != Collation::BINARY => {
                self.decode(bytes).into_owned()
            }
            value => {
                let mut text = Vec::new();
                porpoise_types::write_text(value, &param.ty, &mut text);
                text
            }
        };
        let text = String::from_utf8(text);
        Some(text.map_or_else(
            |error| {
                String::from_utf8_lossy(error.as_bytes())
                    .into_owned()
                    .into_bytes()
            },
            String::into_bytes,
        ))
    }
}
