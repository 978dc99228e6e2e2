//! ALTER TABLE.

use super::super::ast::{
    AlterAction, AlterTable, ColumnPosition, ExprKind, Ident, Literal, PartitionMaintenance,
    UnaryOp,
};
use super::Printer;

impl Printer<'_> {
    pub(super) fn alter_table(&mut self, alter: &AlterTable<'_>) {
        self.put("ALTER TABLE ");
        self.table_name(&alter.name);
        for (index, action) in alter.actions.iter().enumerate() {
            // Partitioning clauses are not separated by a comma.
            let apart = matches!(
                action,
                AlterAction::PartitionBy(_) | AlterAction::RemovePartitioning
            );
            self.put_if(index > 0 && !apart, ",");
            self.put(" ");
            self.alter_action(action);
        }
    }

    fn position(&mut self, position: &ColumnPosition<'_>) {
        match position {
            ColumnPosition::Default => {}
            ColumnPosition::First => self.put(" FIRST"),
            ColumnPosition::After(name) => self.opt_ident(" AFTER ", Some(name)),
        }
    }

    fn renamed(&mut self, what: &str, old: &Ident<'_>, new: &Ident<'_>) {
        self.opt_ident(what, Some(old));
        self.opt_ident(" TO ", Some(new));
    }

    fn alter_action(&mut self, action: &AlterAction<'_>) {
        match action {
            AlterAction::AddColumn(column, position) => {
                self.put("ADD COLUMN ");
                self.column_def(column);
                self.position(position);
            }
            AlterAction::AddElements(elements) => {
                self.put("ADD COLUMN ");
                self.paren_list(elements, Self::table_element);
            }
            AlterAction::AddIndex(index) => {
                self.put("ADD ");
                self.index_def(index);
            }
            AlterAction::AddForeignKey(key) => {
                self.put("ADD ");
                self.foreign_key(key);
            }
            AlterAction::AddCheck(check) => {
                self.put("ADD ");
                self.check(check);
            }
            AlterAction::DropColumn(name) => self.opt_ident("DROP COLUMN ", Some(name)),
            AlterAction::DropIndex(name) => self.opt_ident("DROP INDEX ", Some(name)),
            AlterAction::DropPrimaryKey => self.put("DROP PRIMARY KEY"),
            AlterAction::DropForeignKey(name) => self.opt_ident("DROP FOREIGN KEY ", Some(name)),
            AlterAction::DropCheck(name) => self.opt_ident("DROP CHECK ", Some(name)),
            AlterAction::DropConstraint(name) => self.opt_ident("DROP CONSTRAINT ", Some(name)),
            AlterAction::ModifyColumn(column, position) => {
                self.put("MODIFY COLUMN ");
                self.column_def(column);
                self.position(position);
            }
            AlterAction::ChangeColumn(old, column, position) => {
                self.opt_ident("CHANGE COLUMN ", Some(old));
                self.put(" ");
                self.column_def(column);
                self.position(position);
            }
            _ => self.alter_changes(action),
        }
    }

    /// Changes to existing parts of the table.
    fn alter_changes(&mut self, action: &AlterAction<'_>) {
        match action {
            AlterAction::SetDefault(column, value) => {
                self.opt_ident("ALTER COLUMN ", Some(column));
                self.put(" SET DEFAULT ");
                let plain = match value.kind {
                    ExprKind::Literal(_) => true,
                    ExprKind::Unary(UnaryOp::Neg | UnaryOp::Plus, inner) => matches!(
                        inner.kind,
                        ExprKind::Literal(
                            Literal::Int(_) | Literal::Decimal(_) | Literal::Float(_)
                        )
                    ),
                    _ => false,
                };
                if plain {
                    self.expr(value)
                } else {
                    self.paren_expr("(", value)
                }
            }
            AlterAction::DropDefault(column) => {
                self.opt_ident("ALTER COLUMN ", Some(column));
                self.put(" DROP DEFAULT");
            }
            AlterAction::SetColumnVisible(column, visible) => {
                self.opt_ident("ALTER COLUMN ", Some(column));
                self.put(" SET ");
                self.visible(*visible);
            }
            AlterAction::SetIndexVisible(index, visible) => {
                self.opt_ident("ALTER INDEX ", Some(index));
                self.put(" ");
                self.visible(*visible);
            }
            AlterAction::SetCheckEnforced(name, enforced) => {
                self.opt_ident("ALTER CHECK ", Some(name));
                self.put(if *enforced {
                    " ENFORCED"
                } else {
                    " NOT ENFORCED"
                });
            }
            _ => self.alter_table_itself(action),
        }
    }

    /// Actions on the whole table.
    fn alter_table_itself(&mut self, action: &AlterAction<'_>) {
        match action {
            AlterAction::Rename(name) => {
                self.put("RENAME TO ");
                self.table_name(name);
            }
            AlterAction::RenameColumn(old, new) => self.renamed("RENAME COLUMN ", old, new),
            AlterAction::RenameIndex(old, new) => self.renamed("RENAME INDEX ", old, new),
            AlterAction::ConvertCharset(charset, collation) => {
                self.name_or_default("CONVERT TO CHARACTER SET ", charset.as_ref());
                self.opt_ident(" COLLATE ", collation.as_ref());
            }
            AlterAction::OrderBy(items) => {
                self.put("ORDER BY ");
                self.order_items(items);
            }
            AlterAction::EnableKeys(enable) => self.put(if *enable {
                "ENABLE KEYS"
            } else {
                "DISABLE KEYS"
            }),
            AlterAction::Force => self.put("FORCE"),
            AlterAction::Algorithm(word) => {
                self.put("ALGORITHM=");
                self.word(word);
            }
            AlterAction::Lock(word) => {
                self.put("LOCK=");
                self.word(word);
            }
            AlterAction::Validation(with) => {
                self.put(if *with {
                    "WITH VALIDATION"
                } else {
                    "WITHOUT VALIDATION"
                });
            }
            AlterAction::DiscardTablespace(discard) => {
                self.put(if *discard {
                    "DISCARD TABLESPACE"
                } else {
                    "IMPORT TABLESPACE"
                });
            }
            AlterAction::Option(option) => self.table_option(option),
            _ => self.alter_partitions(action),
        }
    }

    fn alter_partitions(&mut self, action: &AlterAction<'_>) {
        match action {
            AlterAction::PartitionBy(by) => self.partition_by(by),
            AlterAction::RemovePartitioning => self.put("REMOVE PARTITIONING"),
            AlterAction::RemoveTtl => self.put("REMOVE TTL"),
            AlterAction::AddPartitions(partitions) => {
                self.put("ADD PARTITION ");
                self.partition_defs(partitions);
            }
            AlterAction::AddPartitionCount(count) => {
                self.opt_number("ADD PARTITION PARTITIONS ", Some(*count))
            }
            AlterAction::DropPartitions(names) => {
                self.put("DROP PARTITION ");
                self.idents(names);
            }
            AlterAction::CoalescePartition(count) => {
                self.opt_number("COALESCE PARTITION ", Some(*count))
            }
            AlterAction::ReorganizePartition(names, partitions) => {
                self.put("REORGANIZE PARTITION ");
                self.idents(names);
                self.put(" INTO ");
                self.partition_defs(partitions);
            }
            AlterAction::ExchangePartition(name, table, validation) => {
                self.opt_ident("EXCHANGE PARTITION ", Some(name));
                self.put(" WITH TABLE ");
                self.table_name(table);
                self.put_if(!validation, " WITHOUT VALIDATION");
            }
            AlterAction::MaintainPartitions(what, names) => {
                self.put(match what {
                    PartitionMaintenance::Truncate => "TRUNCATE PARTITION ",
                    PartitionMaintenance::Analyze => "ANALYZE PARTITION ",
                    PartitionMaintenance::Check => "CHECK PARTITION ",
                    PartitionMaintenance::Optimize => "OPTIMIZE PARTITION ",
                    PartitionMaintenance::Rebuild => "REBUILD PARTITION ",
                    PartitionMaintenance::Repair => "REPAIR PARTITION ",
                });
                self.put_if(names.is_empty(), "ALL");
                self.idents(names);
            }
            AlterAction::AddKeyPrefix(def) => self.key_prefix(def),
            AlterAction::DropKeyPrefix(def) => {
                self.put("DROP ");
                self.key_prefix(def);
            }
            _ => {}
        }
    }
}
