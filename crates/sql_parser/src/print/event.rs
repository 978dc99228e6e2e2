//! Printing of CREATE EVENT and ALTER EVENT; the body is printed as written.

use super::super::ast::{EventStatement, EventStatus, Schedule};
use super::Printer;
use super::call::unit;

impl Printer<'_> {
    pub(super) fn event(&mut self, event: &EventStatement<'_>) {
        self.put(if event.alter { "ALTER " } else { "CREATE " });
        if let Some(definer) = &event.definer {
            self.put("DEFINER=");
            self.account(definer);
            self.put(" ");
        }
        self.put("EVENT ");
        self.put_if(event.if_not_exists, "IF NOT EXISTS ");
        self.table_name(&event.name);
        match &event.schedule {
            Some(Schedule::At(at)) => {
                self.put(" ON SCHEDULE AT ");
                self.expr(at);
            }
            Some(Schedule::Every {
                amount,
                unit: of,
                starts,
                ends,
            }) => {
                self.put(" ON SCHEDULE EVERY ");
                self.expr(amount);
                self.put(" ");
                self.put(unit(*of));
                for (word, moment) in [(" STARTS ", starts), (" ENDS ", ends)] {
                    if let Some(moment) = moment {
                        self.put(word);
                        self.expr(moment);
                    }
                }
            }
            None => {}
        }
        match event.preserve {
            Some(true) => self.put(" ON COMPLETION PRESERVE"),
            Some(false) => self.put(" ON COMPLETION NOT PRESERVE"),
            None => {}
        }
        if let Some(name) = &event.rename {
            self.put(" RENAME TO ");
            self.table_name(name);
        }
        self.put(match event.status {
            Some(EventStatus::Enabled) => " ENABLE",
            Some(EventStatus::Disabled) => " DISABLE",
            Some(EventStatus::DisabledOnReplica) => " DISABLE ON REPLICA",
            None => "",
        });
        self.opt_string(" COMMENT ", event.comment);
        if let Some(body) = &event.body {
            self.put(" DO ");
            self.out.extend_from_slice(body.text);
        }
    }
}
