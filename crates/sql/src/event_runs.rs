//! Runs of events: the last run, which is also recorded in a table
//! ([`porpoise_access::event_runs`]), and failures since the start of the server.
//!
//! Invariant: of an event that fails again and again, one failure is reported in
//! [`REPORT_INTERVAL`].

use parking_lot::Mutex;
use porpoise_access::event_runs::EventRun as LastRun;
use porpoise_rows::catalog::{Event, EventKey};
use porpoise_sql_expr::error::SqlError;
use std::collections::HashMap;

/// Minimum time between two reports of failures of one event, in microseconds.
const REPORT_INTERVAL: i64 = 600 * 1_000_000;

/// A failure of an event.
#[derive(Clone, Debug)]
pub(crate) struct EventFailure {
    /// Number of failures so far.
    pub count: u64,
    /// Time of the last one, microseconds since 1970 UTC.
    pub at: i64,
    /// Its error number.
    pub code: u16,
    /// Its message.
    pub message: String,
}

#[derive(Default)]
struct EventRun {
    last: Option<LastRun>,
    failure: Option<EventFailure>,
    /// Time of the last report, and the number of failures since.
    reported: Option<(i64, u64)>,
}

/// The runs of all events.
#[derive(Default)]
pub(crate) struct EventRuns(Mutex<HashMap<EventKey, EventRun>>);

impl EventRuns {
    /// The runs that were recorded before the server was started.
    pub(crate) fn restore(recorded: Vec<LastRun>) -> EventRuns {
        let runs = EventRuns::default();
        for run in recorded {
            runs.begin(run);
        }
        runs
    }

    /// Keeps the start of a run.
    pub(crate) fn begin(&self, run: LastRun) {
        let event = run.event.clone();
        self.0.lock().entry(event).or_default().last = Some(run);
    }

    /// Start of the last run.
    pub(crate) fn last(&self, event: &Event) -> Option<i64> {
        let runs = self.0.lock();
        let last = runs.get(&event.key())?.last.as_ref()?;
        (last.created == event.created).then_some(last.began)
    }

    /// The last failure of an event.
    pub(crate) fn failure(&self, event: &EventKey) -> Option<EventFailure> {
        self.0.lock().get(event)?.failure.clone()
    }

    /// Records a failure. If it is to be reported, returns the number of failures that were not
    /// reported before it.
    pub(crate) fn fail(&self, event: EventKey, now: i64, error: &SqlError) -> Option<u64> {
        let mut runs = self.0.lock();
        let run = runs.entry(event).or_default();
        run.failure = Some(EventFailure {
            count: run.failure.as_ref().map_or(0, |f| f.count) + 1,
            at: now,
            code: error.code,
            message: error.message.clone(),
        });
        match &mut run.reported {
            Some((at, since)) if now.saturating_sub(*at) < REPORT_INTERVAL => {
                *since += 1;
                None
            }
            reported => {
                let before = reported.map_or(0, |(_, since)| since);
                *reported = Some((now, 0));
                Some(before)
            }
        }
    }

    /// Forgets events that do not exist. Returns those that had run.
    pub(crate) fn retain(&self, exists: impl Fn(&EventKey) -> bool) -> Vec<EventKey> {
        let mut runs = self.0.lock();
        let gone = runs.extract_if(|event, _| !exists(event));
        let gone = gone.filter_map(|(event, run)| run.last.map(|_| event));
        gone.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_and_reported_once_in_a_while() {
        let runs = EventRuns::default();
        let event: EventKey = ("d".to_owned(), "e".to_owned());
        let error = SqlError::new(1146, "42S02", "Table 'd.t' doesn't exist");
        let fail = |minute: i64| runs.fail(event.clone(), minute * 60_000_000, &error);
        assert_eq!(fail(0), Some(0));
        for minute in 1..10 {
            assert_eq!(fail(minute), None);
        }
        assert_eq!(fail(10), Some(9));
        assert_eq!(fail(11), None);
        let failure = runs.failure(&event).unwrap();
        assert_eq!((failure.count, failure.code), (12, 1146));
        assert_eq!(runs.retain(|_| false), []);
        assert!(runs.failure(&event).is_none());
    }
}
