//! Text of floats.

use porpoise_types::{ColumnType, ValueRef, write_text};

use crate::{assert_none, rows};

#[test]
fn layout() {
    let mut wrong = Vec::new();
    for row in rows(include_str!("../data/double_text.tsv"), 3) {
        let v: f64 = row[1].parse().unwrap();
        let (ty, v) = match row[0] {
            "float" => (ColumnType::float(), f64::from(v as f32)),
            _ => (ColumnType::double(), v),
        };
        let mut out = Vec::new();
        write_text(ValueRef::Double(v), &ty, &mut out);
        if out != row[2].as_bytes() {
            wrong.push(format!("{row:?}: {}", String::from_utf8_lossy(&out)));
        }
    }
    assert_none(wrong);
}
