//! The MEMCACHED clauses of ALTER TABLE.

use super::super::ast::KeyPrefix;
use super::Printer;

impl Printer<'_> {
    /// The clauses after ADD or DROP: the prefix alone, or all clauses.
    pub(super) fn key_prefix(&mut self, def: &KeyPrefix<'_>) {
        self.opt_string("MEMCACHED PREFIX ", Some(def.prefix));
        self.opt_string(" ROLE ", def.role);
        for (word, list) in [(" KEY (", def.key), (" VALUE (", def.value)] {
            if !list.is_empty() {
                self.put(word);
                self.idents(list);
                self.put(")");
            }
        }
        let columns = [
            (" FLAGS (", def.flags),
            (" CAS (", def.cas),
            (" EXPIRES (", def.expires),
        ];
        for (word, column) in columns {
            if let Some(column) = column {
                self.opt_ident(word, Some(&column));
                self.put(")");
            }
        }
        self.opt_string(" POLICY ", def.policy);
        self.opt_string(" SEPARATOR ", def.separator);
        self.opt_string(" ESCAPE ", def.escape);
        self.opt_string(" NULL AS ", def.null_token);
        self.put_if(def.json, " AS JSON");
    }
}
