//! Format of the server's log: text, or a JSON object in each line (`--log-format`), with a rate
//! limit for each call site. The next line of a call site has the number of lines left out before
//! it.
//!
//! A JSON line has `time`, `level`, `target`, `message`, the fields of the event, and `left_out` if
//! lines were left out.

use parking_lot::Mutex;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{Format, Full, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Maximum number of lines of one call site in [`WINDOW`].
const MAX_LINES: u32 = 100;

/// Time in which lines of one call site are counted.
const WINDOW: Duration = Duration::from_secs(10);

/// Rate limiter by call site.
#[derive(Debug, Default)]
struct Limiter(Mutex<HashMap<Identifier, Lines>>);

#[derive(Debug)]
struct Lines {
    since: Instant,
    written: u32,
    left_out: u64,
}

impl Limiter {
    /// Returns the number of lines left out before this one; `None` if this one must be left out,
    /// too.
    fn admit(&self, place: Identifier, now: Instant) -> Option<u64> {
        let mut places = self.0.lock();
        let lines = places.entry(place).or_insert(Lines {
            since: now,
            written: 0,
            left_out: 0,
        });
        if now.saturating_duration_since(lines.since) >= WINDOW {
            (lines.since, lines.written) = (now, 0);
        }
        if lines.written >= MAX_LINES {
            lines.left_out += 1;
            return None;
        }
        lines.written += 1;
        Some(std::mem::take(&mut lines.left_out))
    }
}

/// Formats events.
pub struct LogFormat {
    /// `None`: JSON.
    text: Option<Format<Full, SystemTime>>,
    limiter: Limiter,
}

impl LogFormat {
    /// JSON or text.
    pub fn new(json: bool) -> LogFormat {
        LogFormat {
            text: (!json).then(Format::default),
            limiter: Limiter::default(),
        }
    }
}

/// Collects the fields of an event.
struct Fields(Map<String, Value>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let value = Value::String(format!("{value:?}"));
        self.0.insert(field.name().to_owned(), value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

/// The time as text; empty if it cannot be formatted.
fn time() -> String {
    let mut time = String::new();
    match SystemTime.format_time(&mut Writer::new(&mut time)) {
        Ok(()) => time,
        Err(fmt::Error) => String::new(),
    }
}

impl<S, N> FormatEvent<S, N> for LogFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        let Some(left_out) = self.limiter.admit(metadata.callsite(), Instant::now()) else {
            return Ok(());
        };
        if let Some(text) = &self.text {
            if left_out > 0 {
                writeln!(out, "({left_out} lines like the next one were left out)")?;
            }
            return text.format_event(context, out, event);
        }
        let mut fields = Fields(Map::new());
        fields.0.insert("time".to_owned(), time().into());
        let level = metadata.level().as_str();
        fields.0.insert("level".to_owned(), level.into());
        fields
            .0
            .insert("target".to_owned(), metadata.target().into());
        event.record(&mut fields);
        if left_out > 0 {
            fields.0.insert("left_out".to_owned(), left_out.into());
        }
        writeln!(out, "{}", Value::Object(fields.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::Arc;

    /// Runs `log` with a format; returns what was written.
    fn written(json: bool, log: impl FnOnce()) -> String {
        #[derive(Clone, Default)]
        struct Buffer(Arc<Mutex<Vec<u8>>>);
        impl io::Write for Buffer {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().extend_from_slice(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let subscriber = tracing_subscriber::fmt()
            .event_format(LogFormat::new(json))
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, log);
        let bytes = buffer.0.lock().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn lines_are_json_objects_with_their_fields() {
        let text = written(true, || {
            tracing::warn!(connection = 7u64, user = ?"a\"b", "login \"denied\"");
        });
        let line: Value = serde_json::from_str(text.trim_end()).unwrap();
        assert_eq!(line["level"], "WARN");
        assert_eq!(line["connection"], 7);
        assert_eq!(line["message"], "login \"denied\"");
        assert_eq!(line["user"], "\"a\\\"b\"");
        assert!(line["time"].as_str().unwrap().ends_with('Z'), "{line}");
    }

    #[test]
    fn repeated_lines_are_left_out_and_counted() {
        let text = written(false, || {
            for n in 0..2 * MAX_LINES {
                tracing::warn!("line {n}");
            }
            tracing::warn!("another place");
        });
        assert_eq!(text.lines().count() as u32, MAX_LINES + 1);
        assert!(
            text.contains("WARN") && text.contains("another place"),
            "{text}"
        );
        let (limiter, now) = (Limiter::default(), Instant::now());
        let place = || tracing::callsite::Identifier(&PLACE);
        for _ in 0..MAX_LINES {
            assert_eq!(limiter.admit(place(), now), Some(0));
        }
        assert_eq!(limiter.admit(place(), now), None);
        assert_eq!(limiter.admit(place(), now + WINDOW), Some(1));
    }

    struct Place;

    static PLACE: Place = Place;

    impl tracing::callsite::Callsite for Place {
        fn set_interest(&self, _: tracing::subscriber::Interest) {}

        fn metadata(&self) -> &tracing::Metadata<'_> {
            panic!("not asked for")
        }
    }
}
