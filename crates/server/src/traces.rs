//! Export of traces by OTLP over HTTP with JSON (OpenTelemetry Protocol, "OTLP/HTTP").
//!
//! Sessions put spans into a bounded queue; a thread sends them in batches, at the latest
//! [`MAX_DELAY`] after the first one.
//!
//! Invariants:
//! 1. A session never waits for the receiver: it holds the queue's mutex only to add a span, and the
//!    thread only to take all of them. A span that finds the queue full is dropped and counted.
//! 2. A batch that the receiver does not accept is sent once more if the failure may be temporary, then
//!    dropped and counted. Failures are logged at most once a minute.
//! 3. No span contains values of a statement.
//!
//! Rejected: the crates of OpenTelemetry (an asynchronous runtime, protobuf and an HTTP client of their
//! own, for one message); protobuf (JSON is accepted by every receiver of OTLP/HTTP, and only the
//! exporter's thread pays for it).

use parking_lot::{Condvar, Mutex};
use porpoise_base::threads::{self, Role};
use porpoise_client::http::{self, Endpoint, Limits, Request};
use porpoise_kv::Stat;
use porpoise_sql::trace::{StatementSpan, TraceSink};
use serde_json::{Map, Value, json};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum number of spans that wait to be sent.
const MAX_QUEUED: usize = 4096;

/// Number of spans from which they are sent without delay.
const BATCH: usize = 512;

/// Maximum time for which a span waits before it is sent.
const MAX_DELAY: Duration = Duration::from_secs(1);

/// Pause before a batch is sent once more.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Limits of a request.
const LIMITS: Limits = Limits {
    wait: Duration::from_secs(3),
    response: 1 << 16,
};

/// Path of traces, appended to the endpoint.
const PATH: &str = "/v1/traces";

/// Time between two messages about failures.
const MESSAGE_INTERVAL: Duration = Duration::from_secs(60);

/// Spans that wait, and whether the exporter ends.
#[derive(Default)]
struct Queue {
    spans: Vec<StatementSpan>,
    stop: bool,
}

/// The part of an exporter that sessions and its thread share.
struct Shared {
    endpoint: Endpoint,
    /// Share of the statements without a trace of the client that begin one, of 2^32.
    sampled: u64,
    queue: Mutex<Queue>,
    wake: Condvar,
    sent: AtomicU64,
    dropped: AtomicU64,
}

/// Exports traces until it is stopped.
pub struct TraceExporter {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl TraceExporter {
    /// Starts the exporter's thread. `ratio` is the share, from 0 to 1, of the statements without a
    /// trace of the client that begin one.
    ///
    /// # Errors
    /// The system's error when no thread can be created.
    pub fn start(endpoint: Endpoint, ratio: f64) -> io::Result<TraceExporter> {
        let shared = Arc::new(Shared {
            endpoint,
            sampled: (ratio.clamp(0.0, 1.0) * (1u64 << 32) as f64) as u64,
            queue: Mutex::default(),
            wake: Condvar::new(),
            sent: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        });
        let exported = shared.clone();
        let thread = threads::spawn_restarting(Role::TraceExporter, move || exported.run())?;
        Ok(TraceExporter {
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// The receiver of spans for SQL.
    pub fn sink(&self) -> Arc<dyn TraceSink> {
        self.shared.clone()
    }

    /// Sends what waits, and ends the thread.
    pub fn stop(&self) {
        self.shared.queue.lock().stop = true;
        self.shared.wake.notify_all();
        if let Some(thread) = self.thread.lock().take() {
            // A panic of the thread was reported by its role.
            let _ = thread.join();
        }
    }

    /// Metrics of the exporter.
    pub fn stats(&self) -> [Stat; 2] {
        let counter = |name, help, value: &AtomicU64| Stat {
            name,
            help,
            counter: true,
            value: value.load(Ordering::Relaxed),
        };
        let (sent, dropped) = (&self.shared.sent, &self.shared.dropped);
        let lost = "Spans dropped because the queue was full or the receiver did not accept them.";
        [
            counter(
                "trace_spans_sent_total",
                "Spans sent to the receiver.",
                sent,
            ),
            counter("trace_spans_dropped_total", lost, dropped),
        ]
    }
}

impl TraceSink for Shared {
    fn begins_trace(&self) -> bool {
        self.sampled > 0 && u64::from(fastrand::u32(..)) < self.sampled
    }

    fn record(&self, span: StatementSpan) {
        let mut queue = self.queue.lock();
        if queue.spans.len() >= MAX_QUEUED {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        queue.spans.push(span);
        let is_due = queue.spans.len() == 1 || queue.spans.len() == BATCH;
        drop(queue);
        if is_due {
            self.wake.notify_one();
        }
    }
}

impl Shared {
    /// Sends batches until the exporter is stopped.
    fn run(&self) {
        let mut last_message = None;
        loop {
            let (spans, stop) = self.next_batch();
            if !spans.is_empty() {
                self.send(&spans, stop, &mut last_message);
            }
            if stop {
                return;
            }
        }
    }

    /// Waits for spans, and takes them. Returns true with the last ones.
    fn next_batch(&self) -> (Vec<StatementSpan>, bool) {
        let mut queue = self.queue.lock();
        while queue.spans.is_empty() && !queue.stop {
            self.wake.wait(&mut queue);
        }
        let deadline = Instant::now() + MAX_DELAY;
        while queue.spans.len() < BATCH && !queue.stop {
            if self.wake.wait_until(&mut queue, deadline).timed_out() {
                break;
            }
        }
        (std::mem::take(&mut queue.spans), queue.stop)
    }

    /// Sends a batch; `is_last` at the end of the server, which does not wait to send it again.
    fn send(&self, spans: &[StatementSpan], is_last: bool, last_message: &mut Option<Instant>) {
        let body = message(spans).to_string();
        let mut outcome = self.post(body.as_bytes());
        if matches!(outcome, Err((_, true))) && !is_last {
            std::thread::sleep(RETRY_PAUSE);
            outcome = self.post(body.as_bytes());
        }
        let count = spans.len() as u64;
        let Err((reason, _)) = outcome else {
            self.sent.fetch_add(count, Ordering::Relaxed);
            return;
        };
        let dropped = self.dropped.fetch_add(count, Ordering::Relaxed) + count;
        if last_message.is_none_or(|at| at.elapsed() >= MESSAGE_INTERVAL) {
            *last_message = Some(Instant::now());
            let host = self.endpoint.host();
            tracing::warn!(
                "traces could not be sent to {host}: {reason}; {dropped} spans were dropped since \
                 the start"
            );
        }
    }

    /// Sends a message. The error is the reason, and whether the failure may be temporary.
    fn post(&self, body: &[u8]) -> Result<(), (String, bool)> {
        let request = Request {
            method: "POST",
            path: PATH,
            query: "",
            body,
        };
        let headers = [
            ("host", self.endpoint.host()),
            ("content-type", "application/json".to_owned()),
        ];
        match http::send(&self.endpoint, &request, &headers, LIMITS) {
            Ok(response) if (200..300).contains(&response.status) => Ok(()),
            // The statuses that OTLP names as temporary.
            Ok(response) => {
                let status = response.status;
                let is_temporary = matches!(status, 429 | 502 | 503 | 504);
                Err((format!("status {status}"), is_temporary))
            }
            Err(error) => Err((error.to_string(), true)),
        }
    }
}

/// Lower-case hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attribute(key: &str, value: Value) -> Value {
    json!({"key": key, "value": value})
}

fn text(key: &str, value: &str) -> Value {
    attribute(key, json!({"stringValue": value}))
}

/// A whole number, which JSON of protobuf has as text.
fn number(key: &str, value: u64) -> Value {
    attribute(key, json!({"intValue": value.to_string()}))
}

/// A message with these spans (`ExportTraceServiceRequest`).
fn message(spans: &[StatementSpan]) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    let spans: Vec<Value> = spans.iter().map(span_json).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": [
            text("service.name", "porpoise"),
            text("service.version", version),
            number("process.pid", u64::from(std::process::id())),
        ]},
        "scopeSpans": [{
            "scope": {"name": "porpoise.sql", "version": version},
            "spans": spans,
        }],
    }]})
}

/// A span, with the attributes of OpenTelemetry's conventions for databases and some of our own.
fn span_json(span: &StatementSpan) -> Value {
    let random = || loop {
        let id: u64 = fastrand::u64(..);
        if id != 0 {
            return id.to_be_bytes();
        }
    };
    let trace = span.parent.map_or_else(
        || [random(), random()].concat(),
        |parent| parent.trace.to_vec(),
    );
    let operation = span.text.split(' ').next().unwrap_or_default();
    let mut attributes = vec![
        text("db.system.name", "porpoise"),
        text("db.operation.name", operation),
        text("db.query.text", &span.text),
        number("porpoise.connection.id", span.connection),
        number("porpoise.parse_ns", span.parse_nanos),
        number("porpoise.plan_ns", span.plan_nanos),
        number("porpoise.lock_wait_ns", span.lock_nanos),
        number("porpoise.rows_examined", span.rows_examined),
        number("porpoise.rows_affected", span.rows_affected),
        number("db.response.returned_rows", span.rows_sent),
    ];
    attributes.extend(span.database.as_deref().map(|d| text("db.namespace", d)));
    let name = if operation.is_empty() {
        "statement"
    } else {
        operation
    };
    let mut json = Map::from_iter([
        ("traceId".to_owned(), hex(&trace).into()),
        ("spanId".to_owned(), hex(&random()).into()),
        ("name".to_owned(), name.into()),
        // SPAN_KIND_SERVER
        ("kind".to_owned(), 2.into()),
        (
            "startTimeUnixNano".to_owned(),
            span.ended.saturating_sub(span.nanos).to_string().into(),
        ),
        ("endTimeUnixNano".to_owned(), span.ended.to_string().into()),
    ]);
    if span.error != 0 {
        let code = span.error.to_string();
        attributes.push(text("db.response.status_code", &code));
        attributes.push(text("error.type", &code));
        // STATUS_CODE_ERROR
        json.insert("status".to_owned(), json!({"code": 2}));
    }
    if let Some(parent) = span.parent {
        json.insert("parentSpanId".to_owned(), hex(&parent.span).into());
    }
    json.insert("attributes".to_owned(), attributes.into());
    json.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use porpoise_sql::trace::TraceParent;
    use std::net::TcpListener;

    fn span(error: u16) -> StatementSpan {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        StatementSpan {
            parent: TraceParent::parse(parent.as_bytes()),
            ended: 5_000_000,
            nanos: 2_000_000,
            parse_nanos: 1,
            plan_nanos: 2,
            lock_nanos: 3,
            text: "SELECT ?".to_owned(),
            database: Some("d".to_owned()),
            connection: 7,
            error,
            rows_examined: 4,
            rows_sent: 5,
            rows_affected: 6,
        }
    }

    #[test]
    fn a_span_has_the_fields_of_otlp() {
        let json = span_json(&span(1146));
        assert_eq!(json["traceId"], "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(json["parentSpanId"], "b7ad6b7169203331");
        assert_eq!(json["spanId"].as_str().unwrap().len(), 16);
        assert_eq!(json["startTimeUnixNano"], "3000000");
        assert_eq!(
            (&json["name"], &json["status"]["code"]),
            (&"SELECT".into(), &2.into())
        );
        let alone = span_json(&StatementSpan {
            parent: None,
            ..span(0)
        });
        assert_eq!(alone["traceId"].as_str().unwrap().len(), 32);
        assert_ne!(alone["traceId"], json["traceId"]);
        assert!(alone["parentSpanId"].is_null() && alone["status"].is_null());
    }

    #[test]
    fn a_receiver_that_does_not_answer_delays_no_statement() {
        // The receiver accepts connections by its backlog, and never reads.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let exporter = TraceExporter::start(Endpoint::parse(&url).unwrap(), 0.0).unwrap();
        let sink = exporter.sink();
        assert!(!sink.begins_trace());
        let begun = Instant::now();
        for _ in 0..3 * MAX_QUEUED {
            sink.record(span(0));
        }
        assert!(
            begun.elapsed() < Duration::from_secs(1),
            "{:?}",
            begun.elapsed()
        );
        let [sent, dropped] = exporter.stats();
        assert_eq!(sent.value, 0);
        assert!(dropped.value >= MAX_QUEUED as u64, "{}", dropped.value);
        drop(listener);
        exporter.stop();
    }
}
