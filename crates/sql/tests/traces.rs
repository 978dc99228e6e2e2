//! Selection of traced statements: by their comment, by a query attribute, or by chance.

use crate::common::{Nothing, ask, connect, good, server};
use porpoise_kv::model::Model;
use porpoise_sql::Param;
use porpoise_sql::trace::{StatementSpan, TraceSink};
use porpoise_types::{Collation, ColumnType, ValueRef};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// A receiver that keeps the spans.
#[derive(Default)]
struct Spans {
    begins: AtomicBool,
    spans: Mutex<Vec<StatementSpan>>,
}

impl TraceSink for Spans {
    fn begins_trace(&self) -> bool {
        self.begins.load(Ordering::Relaxed)
    }

    fn record(&self, span: StatementSpan) {
        self.spans.lock().unwrap().push(span);
    }
}

impl Spans {
    /// The last bytes of the client's spans, and the texts, since the last call.
    fn take(&self) -> Vec<(Option<u8>, String)> {
        let spans = std::mem::take(&mut *self.spans.lock().unwrap());
        let shown = |span: StatementSpan| (span.parent.map(|parent| parent.span[7]), span.text);
        spans.into_iter().map(shown).collect()
    }
}

/// A sampled parent whose span id ends in this byte.
fn parent(last: u8) -> String {
    format!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b71692033{last:02x}-01")
}

#[test]
fn statements_are_traced_by_comment_attribute_or_chance() {
    let server = server(Arc::new(Model::new()));
    let spans = Arc::new(Spans::default());
    server.provide_traces(spans.clone());
    let mut session = connect(&server, 1);
    good(&mut session, "SELECT 1");
    assert!(spans.take().is_empty());
    let comment = format!("/*traceparent='{}'*/", parent(1));
    good(&mut session, &format!("SELECT 1 {comment}"));
    let traced = |last, text: &str| (last, text.to_owned());
    assert_eq!(spans.take(), [traced(Some(1), "SELECT ?")]);
    // An attribute has precedence, also for a prepared statement, whose own comment does not count.
    let text = parent(2);
    let attribute = || Param {
        value: ValueRef::Bytes(text.as_bytes()),
        ty: ColumnType::varchar(60, Collation::UTF8MB4_0900_AI_CI),
    };
    let name: &[u8] = b"traceparent";
    let id = session
        .prepare(format!("DO 1 {comment}").as_bytes())
        .unwrap()
        .id;
    spans.take();
    session.set_query_attributes([(name, attribute())].into_iter());
    good(&mut session, &format!("SELECT 1 {comment}"));
    session.execute(id, &[], &mut Nothing).unwrap();
    session.clear_query_attributes();
    session.execute(id, &[], &mut Nothing).unwrap();
    let expected = [traced(Some(2), "SELECT ?"), traced(Some(2), "DO ?")];
    assert_eq!(spans.take(), expected);
    // A client that does not record its trace has no spans, whatever the receiver wants.
    good(
        &mut session,
        &format!("DO 1 {}", comment.replace("-01'", "-00'")),
    );
    assert!(spans.take().is_empty());
    spans.begins.store(true, Ordering::Relaxed);
    good(
        &mut session,
        &format!("DO 1 {}", comment.replace("-01'", "-00'")),
    );
    let _ = ask(&mut session, "SELECT nonsense");
    assert_eq!(spans.take(), [traced(None, "SELECT `nonsense`")]);
}
