//! `auto_increment_prefetch` of a Porpoise: a global variable, which is restored
//! after an experiment that sets it.

use super::Route;
use crate::connect::Admin;
use crate::url::System;

/// Former value of the variable, which is restored when dropped.
pub struct Kept<'w> {
    route: &'w Route,
    value: String,
}

impl Kept<'_> {
    /// Reads the variable; `None` if the system does not have it.
    pub fn of(route: &Route) -> Option<Kept<'_>> {
        let target = &route.endpoint.target;
        if target.system != System::Porpoise {
            return None;
        }
        let mut admin = Admin::connect(target).ok()?;
        let found = admin.value("select @@global.auto_increment_prefetch");
        let value = found.ok()??;
        Some(Kept { route, value })
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        let setting = format!("set global auto_increment_prefetch = {}", self.value);
        // A server that has ended needs no restoring.
        let _ = Admin::connect(&self.route.endpoint.target)
            .and_then(|mut admin| admin.run(&setting).map(|_| ()));
    }
}
