//! Printing of the statements of a replica.

use super::super::ast::{FilterItem, ReplicaStatement, SourceValue};
use super::Printer;

impl Printer<'_> {
    pub(super) fn replica(&mut self, statement: &ReplicaStatement<'_>) {
        match statement {
            ReplicaStatement::ChangeSource(options) => {
                self.put("CHANGE REPLICATION SOURCE TO ");
                self.list(options, |p, option| {
                    p.put(option.name.name);
                    p.put(" = ");
                    match &option.value {
                        SourceValue::Text(text) => p.string(text),
                        SourceValue::Number(number) => p.put(number),
                        SourceValue::Word(word) => p.put(word.name),
                        SourceValue::Numbers(numbers) => {
                            p.put("(");
                            p.list(numbers, |p, number| p.number(*number));
                            p.put(")");
                        }
                    }
                });
            }
            ReplicaStatement::ChangeFilter(rules) => {
                self.put("CHANGE REPLICATION FILTER ");
                self.list(rules, |p, rule| {
                    p.put(rule.name.name);
                    p.put(" = (");
                    p.list(rule.items, Self::filter_item);
                    p.put(")");
                });
            }
            ReplicaStatement::Start(threads) | ReplicaStatement::Stop(threads) => {
                let is_start = matches!(statement, ReplicaStatement::Start(_));
                self.put(if is_start {
                    "START REPLICA"
                } else {
                    "STOP REPLICA"
                });
                self.put_if(!threads.is_empty(), " ");
                self.list(threads, |p, thread| p.put(thread.name));
            }
            ReplicaStatement::Reset { all } => {
                self.put("RESET REPLICA");
                self.put_if(*all, " ALL");
            }
        }
    }

    fn filter_item(&mut self, item: &FilterItem<'_>) {
        match item {
            FilterItem::Database(name) => self.ident(name),
            FilterItem::Table(database, table) => {
                self.ident(database);
                self.put(".");
                self.ident(table);
            }
            FilterItem::Pattern(pattern) => self.string(pattern),
            FilterItem::Rewrite(from, to) => {
                self.put("(");
                self.ident(from);
                self.put(", ");
                self.ident(to);
                self.put(")");
            }
        }
    }
}
