//! Printing of the statements of a replica.

use super::super::ast::{FilterItem, ReplicaStatement, SourceOption, SourceValue};
use super::Printer;

impl Printer<'_> {
    pub(super) fn replica(&mut self, statement: &ReplicaStatement<'_>) {
        match statement {
            ReplicaStatement::ChangeSource(options) => {
                self.put("CHANGE REPLICATION SOURCE TO ");
                self.list(options, Self::source_option);
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
            ReplicaStatement::Start { threads, until } => {
                self.put("START REPLICA");
                self.put_if(!threads.is_empty(), " ");
                self.list(threads, |p, thread| p.put(thread.name));
                self.put_if(!until.is_empty(), " UNTIL ");
                self.list(until, Self::source_option);
            }
            ReplicaStatement::Stop(threads) => {
                self.put("STOP REPLICA");
                self.put_if(!threads.is_empty(), " ");
                self.list(threads, |p, thread| p.put(thread.name));
            }
            ReplicaStatement::Reset { all } => {
                self.put("RESET REPLICA");
                self.put_if(*all, " ALL");
            }
        }
    }

    fn source_option(&mut self, option: &SourceOption<'_>) {
        self.put(option.name.name);
        self.put(" = ");
        match &option.value {
            SourceValue::Text(text) => self.string(text),
            SourceValue::Number(number) => self.put(number),
            SourceValue::Word(word) => self.put(word.name),
            SourceValue::Numbers(numbers) => {
                self.put("(");
                self.list(numbers, |p, number| p.number(*number));
                self.put(")");
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
