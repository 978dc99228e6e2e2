//! Printing of routines, SIGNAL and GET DIAGNOSTICS. Parameters and bodies are printed as written, as
//! SHOW CREATE PROCEDURE shows them; in a body, parameters stand in the place of variables.

use super::super::ast::{
    AlterRoutine, Characteristics, ConditionValue, CreateRoutine, CreateTrigger, DataAccess,
    GetDiagnostics, ProgramKind, Signal, TriggerEvent, TriggerOrder,
};
use super::Printer;

impl Printer<'_> {
    pub(super) fn create_routine(&mut self, routine: &CreateRoutine<'_>) {
        self.put("CREATE ");
        if let Some(definer) = &routine.definer {
            self.put("DEFINER=");
            self.account(definer);
            self.put(" ");
        }
        self.program_kind(routine.kind);
        self.put_if(routine.if_not_exists, "IF NOT EXISTS ");
        self.table_name(&routine.name);
        self.put("(");
        self.out.extend_from_slice(routine.parameters_text);
        self.put(")");
        if let Some(returns) = &routine.returns {
            self.put(" RETURNS ");
            self.data_type(returns);
        }
        self.characteristics(&routine.characteristics);
        self.put(" ");
        self.out.extend_from_slice(routine.body.text);
    }

    pub(super) fn create_trigger(&mut self, trigger: &CreateTrigger<'_>) {
        self.put("CREATE ");
        if let Some(definer) = &trigger.definer {
            self.put("DEFINER=");
            self.account(definer);
            self.put(" ");
        }
        self.program_kind(ProgramKind::Trigger);
        self.put_if(trigger.if_not_exists, "IF NOT EXISTS ");
        self.table_name(&trigger.name);
        self.put(if trigger.after { " AFTER " } else { " BEFORE " });
        self.put(match trigger.event {
            TriggerEvent::Insert => "INSERT",
            TriggerEvent::Update => "UPDATE",
            TriggerEvent::Delete => "DELETE",
        });
        self.put(" ON ");
        self.table_name(&trigger.table);
        self.put(" FOR EACH ROW ");
        match &trigger.order {
            Some(TriggerOrder::Follows(other)) => {
                self.put("FOLLOWS ");
                self.ident(other);
                self.put(" ");
            }
            Some(TriggerOrder::Precedes(other)) => {
                self.put("PRECEDES ");
                self.ident(other);
                self.put(" ");
            }
            None => {}
        }
        self.out.extend_from_slice(trigger.body.text);
    }

    fn characteristics(&mut self, given: &Characteristics<'_>) {
        match given.deterministic {
            Some(true) => self.put(" DETERMINISTIC"),
            Some(false) => self.put(" NOT DETERMINISTIC"),
            None => {}
        }
        self.put(match given.access {
            Some(DataAccess::ContainsSql) => " CONTAINS SQL",
            Some(DataAccess::NoSql) => " NO SQL",
            Some(DataAccess::ReadsSqlData) => " READS SQL DATA",
            Some(DataAccess::ModifiesSqlData) => " MODIFIES SQL DATA",
            None => "",
        });
        match given.invoker {
            Some(true) => self.put(" SQL SECURITY INVOKER"),
            Some(false) => self.put(" SQL SECURITY DEFINER"),
            None => {}
        }
        self.opt_string(" COMMENT ", given.comment);
    }

    pub(super) fn alter_routine(&mut self, alter: &AlterRoutine<'_>) {
        self.put("ALTER ");
        self.program_kind(alter.kind);
        self.table_name(&alter.name);
        self.characteristics(&alter.characteristics);
    }

    pub(super) fn signal(&mut self, signal: &Signal<'_>) {
        self.put(if signal.again { "RESIGNAL" } else { "SIGNAL" });
        match &signal.condition {
            Some(ConditionValue::SqlState(state)) => self.opt_string(" SQLSTATE ", Some(state)),
            Some(ConditionValue::Name(name)) => self.opt_ident(" ", Some(name)),
            _ => {}
        }
        self.put_if(!signal.items.is_empty(), " SET ");
        self.list(signal.items, |p, (name, value)| {
            p.put(name);
            p.put(" = ");
            p.expr(&value.expr);
        });
    }

    pub(super) fn get_diagnostics(&mut self, get: &GetDiagnostics<'_>) {
        self.put(if get.stacked {
            "GET STACKED DIAGNOSTICS "
        } else {
            "GET CURRENT DIAGNOSTICS "
        });
        if let Some(condition) = &get.condition {
            self.put("CONDITION ");
            self.expr(&condition.expr);
            self.put(" ");
        }
        self.list(get.items, |p, (target, name)| {
            p.destination_var(target);
            p.put(" = ");
            p.put(name);
        });
    }
}
