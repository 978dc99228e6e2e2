//! The example of every function in the registry returns the value that the registry states.

use porpoise_sql::ResultColumn;
use porpoise_sql::ResultSink;
use porpoise_sql::SqlError;
use porpoise_sql_expr::functions;
use porpoise_types::{ColumnType, ValueRef, write_text};

#[derive(Default)]
struct One {
    ty: Option<ColumnType>,
    text: Vec<u8>,
}

impl ResultSink for One {
    fn columns(&mut self, columns: &[ResultColumn]) -> Result<(), SqlError> {
        self.ty = columns.first().map(|c| c.ty.clone());
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        if let (Some(ty), Some(value)) = (&self.ty, values.first()) {
            write_text(*value, ty, &mut self.text);
        }
        Ok(())
    }
}

#[test]
fn function_examples_have_the_documented_results() {
    let mut session = crate::common::session();
    let mut wrong = Vec::new();
    let mut run = 0;
    for function in functions::all().filter(|f| !f.example.0.is_empty()) {
        let (call, expected) = function.example;
        let mut sink = One::default();
        let text = format!("SELECT {call}");
        match session.query(text.as_bytes(), false, &mut sink) {
            Ok(_) if sink.text == expected.as_bytes() => run += 1,
            Ok(_) => wrong.push(format!(
                "{call} is {}, not {expected}",
                String::from_utf8_lossy(&sink.text)
            )),
            Err(error) => wrong.push(format!("{call}: {error}")),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(run > 80, "only {run} examples");
}
