//! The JSON document of a histogram, as MySQL shows it in `information_schema.COLUMN_STATISTICS`
//! (manual, "The INFORMATION_SCHEMA COLUMN_STATISTICS Table") and takes it after USING DATA. The
//! catalog keeps histograms in this form, too, with DECIMAL values as text, because numbers of a
//! document are read as doubles.

use super::{Bound, Bucket, Histogram, HistogramKind, MAX_BUCKETS};
use porpoise_base::base64;
use porpoise_types::json::{self, Json, Object};
use porpoise_types::{
    CastCx, Collation, ColumnType, DateTime, Kind, SqlMode, TimeZone, Value, ValueRef, store,
};

/// Start of a text in a document: MySQL's opaque value of type VARCHAR.
const TEXT_PREFIX: &str = "base64:type254:";

/// The collation that MySQL names for types without one (latin1_swedish_ci).
const NO_COLLATION: i64 = 8;

/// Tolerance of sums of frequencies.
const ROUNDING: f64 = 1e-6;

/// The error of a document that is not a histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentError {
    /// The text is not JSON: reason and position.
    Syntax(String),
    /// Any other error, as ANALYZE TABLE reports it.
    Invalid(String),
}

fn invalid<T>(text: impl Into<String>) -> Result<T, DocumentError> {
    Err(DocumentError::Invalid(text.into()))
}

impl Histogram {
    /// The document as it is shown.
    pub fn to_document(&self) -> Json {
        self.document(to_json)
    }

    /// The document as the catalog keeps it.
    pub(crate) fn to_stored_document(&self) -> Json {
        self.document(|value, ty| match value {
            Value::Decimal(v) => {
                let mut text = Vec::new();
                v.write_text(&mut text);
                Json::String(String::from_utf8_lossy(&text).into_owned())
            }
            other => to_json(other, ty),
        })
    }

    fn document(&self, to_json: fn(&Value, &ColumnType) -> Json) -> Json {
        let text = |text: &str| Json::String(text.to_owned());
        let kind = match self.kind {
            HistogramKind::Singleton => "singleton",
            HistogramKind::EquiHeight => "equi-height",
        };
        let collation = if self.ty.is_string() {
            i64::from(self.ty.collation.0)
        } else {
            NO_COLLATION
        };
        let mut updated = Vec::new();
        let at = DateTime::from_unix_micros(self.updated).unwrap_or(DateTime::ZERO);
        at.write_text(6, &mut updated);
        let buckets = self.buckets.iter();
        let buckets = buckets.map(|bucket| self.bucket(bucket, to_json));
        Json::Object(Object::from_members(vec![
            ("buckets".to_owned(), Json::Array(buckets.collect())),
            ("data-type".to_owned(), text(data_type(&self.ty))),
            ("auto-update".to_owned(), Json::Bool(self.auto_update)),
            ("null-values".to_owned(), Json::Double(self.nulls)),
            ("collation-id".to_owned(), Json::Int(collation)),
            (
                "last-updated".to_owned(),
                text(&String::from_utf8_lossy(&updated)),
            ),
            ("sampling-rate".to_owned(), Json::Double(self.sampling_rate)),
            ("histogram-type".to_owned(), text(kind)),
            (
                "number-of-buckets-specified".to_owned(),
                Json::Int(i64::from(self.buckets_wanted)),
            ),
        ]))
    }

    fn bucket(&self, bucket: &Bucket, to_json: fn(&Value, &ColumnType) -> Json) -> Json {
        let frequency = Json::Double(bucket.cumulative);
        let high = to_json(&bucket.high.value, &self.ty);
        Json::Array(match self.kind {
            HistogramKind::Singleton => vec![high, frequency],
            HistogramKind::EquiHeight => {
                let low = to_json(&bucket.low.value, &self.ty);
                let distinct = Json::Int(bucket.distinct as i64);
                vec![low, high, frequency, distinct]
            }
        })
    }

    /// Reads the histogram of a column of this type from its document. `now` is used if the document
    /// does not say when it was last updated.
    ///
    /// # Errors
    /// If the text is not such a document.
    pub fn from_document(
        text: &[u8],
        ty: &ColumnType,
        now: i64,
    ) -> Result<Histogram, DocumentError> {
        let document = json::parse(text).map_err(|e| DocumentError::Syntax(e.to_string()))?;
        let Json::Object(document) = document else {
            return invalid("JSON data is not an object");
        };
        let kind = match string(&document, "histogram-type")? {
            "singleton" => HistogramKind::Singleton,
            "equi-height" => HistogramKind::EquiHeight,
            _ => return wrong_value("histogram-type"),
        };
        if string(&document, "data-type")? != data_type(ty) {
            return wrong_value("data-type");
        }
        let wanted = document.get("number-of-buckets-specified");
        let buckets_wanted = match wanted {
            Some(Json::Int(n)) => u32::try_from(*n).ok(),
            Some(_) => return wrong_type("number-of-buckets-specified"),
            None => None,
        };
        let histogram = Histogram {
            ty: ty.clone(),
            kind,
            buckets: read_buckets(&document, kind, ty)?,
            nulls: fraction(&document, "null-values")?,
            sampling_rate: fraction(&document, "sampling-rate")?,
            buckets_wanted: buckets_wanted.unwrap_or(super::DEFAULT_BUCKETS),
            updated: time(&document).unwrap_or(now),
            auto_update: document.get("auto-update") == Some(&Json::Bool(true)),
        };
        let last = histogram.buckets.last().map_or(0.0, |b| b.cumulative);
        if !histogram.buckets.is_empty() && (last + histogram.nulls - 1.0).abs() > ROUNDING {
            return invalid(
                "The sum of the null values fraction and the cumulative frequency of the last \
                 bucket should be 1.",
            );
        }
        Ok(histogram)
    }

    /// The same histogram, with AUTO UPDATE or MANUAL UPDATE.
    #[must_use]
    pub fn with_auto_update(self, auto_update: bool) -> Histogram {
        Histogram {
            auto_update,
            ..self
        }
    }
}

/// MySQL's name of the type of values.
fn data_type(ty: &ColumnType) -> &'static str {
    match ty.kind {
        Kind::Year => "int",
        Kind::Bit => "uint",
        Kind::Float | Kind::Double => "double",
        Kind::Decimal => "decimal",
        Kind::Date => "date",
        Kind::Time => "time",
        Kind::DateTime | Kind::Timestamp => "datetime",
        Kind::Enum => "enum",
        Kind::Set => "set",
        _ if !ty.is_integer() => "string",
        _ if ty.unsigned => "uint",
        _ => "int",
    }
}

fn to_json(value: &Value, ty: &ColumnType) -> Json {
    let mut text = Vec::new();
    match value {
        Value::Int(v) => return Json::Int(*v),
        Value::UInt(v) => return i64::try_from(*v).map_or(Json::UInt(*v), Json::Int),
        Value::Double(v) => return Json::Double(*v),
        Value::Decimal(v) => return Json::Decimal(*v),
        Value::Bytes(v) if ty.is_string() => {
            text.extend_from_slice(TEXT_PREFIX.as_bytes());
            base64::encode(v, &mut text);
        }
        Value::Bytes(v) => text.extend_from_slice(v),
        Value::Date(v) => v.write_text(&mut text),
        Value::DateTime(v) => v.write_text(6, &mut text),
        Value::Time(v) => v.write_text(6, &mut text),
        Value::Null => {}
    }
    Json::String(String::from_utf8_lossy(&text).into_owned())
}

/// The storage value of a column that a document names; `None` if there is none.
fn from_json(json: &Json, ty: &ColumnType) -> Option<Value> {
    let decoded;
    let (value, from) = match json {
        // Numbers of members and bits, and years, are stored as they are.
        Json::Int(v) if matches!(ty.kind, Kind::Enum | Kind::Set | Kind::Bit | Kind::Year) => {
            return u64::try_from(*v).ok().map(Value::UInt);
        }
        Json::UInt(v) if matches!(ty.kind, Kind::Set | Kind::Bit) => {
            return Some(Value::UInt(*v));
        }
        Json::Int(v) => (ValueRef::Int(*v), ColumnType::bigint()),
        Json::UInt(v) => (ValueRef::UInt(*v), ColumnType::bigint_unsigned()),
        Json::Double(v) => (ValueRef::Double(*v), ColumnType::double()),
        Json::String(text) => match text.strip_prefix(TEXT_PREFIX) {
            Some(text) if ty.is_string() => {
                return base64::decode(text.as_bytes()).map(Value::Bytes);
            }
            _ => {
                decoded = text.as_bytes();
                (
                    ValueRef::Bytes(decoded),
                    ColumnType::varchar(255, Collation::UTF8MB4_BIN),
                )
            }
        },
        _ => return None,
    };
    let mut ignored = |_| ();
    let mut cast = CastCx {
        mode: SqlMode::ALLOW_INVALID_DATES,
        strict: true,
        warnings: &mut ignored,
        tz: &TimeZone::UTC,
        now: DateTime::ZERO,
    };
    let stored = store(value, Some(&from), ty, "", 0, &mut cast).ok()?;
    (!stored.as_ref().is_null()).then_some(stored)
}

fn wrong_type<T>(name: &str) -> Result<T, DocumentError> {
    invalid(format!("Wrong attribute type at '$.\"{name}\"'."))
}

fn wrong_value<T>(name: &str) -> Result<T, DocumentError> {
    invalid(format!("Invalid value at '$.\"{name}\"'."))
}

fn missing<T>(name: &str) -> Result<T, DocumentError> {
    invalid(format!("Missing attribute at '$.\"{name}\"'."))
}

fn string<'d>(document: &'d Object, name: &str) -> Result<&'d str, DocumentError> {
    match document.get(name) {
        Some(Json::String(text)) => Ok(text),
        Some(_) => wrong_type(name),
        None => missing(name),
    }
}

fn number(json: &Json) -> Option<f64> {
    match json {
        Json::Int(v) => Some(*v as f64),
        Json::UInt(v) => Some(*v as f64),
        Json::Double(v) => Some(*v),
        _ => None,
    }
}

/// A number from 0 to 1.
fn fraction(document: &Object, name: &str) -> Result<f64, DocumentError> {
    let Some(found) = document.get(name) else {
        return missing(name);
    };
    match number(found) {
        Some(part) if (0.0..=1.0).contains(&part) => Ok(part),
        Some(_) => wrong_value(name),
        None => wrong_type(name),
    }
}

/// The time of the document, microseconds since 1970 UTC.
fn time(document: &Object) -> Option<i64> {
    let text = string(document, "last-updated").ok()?;
    let ty = ColumnType::datetime(6);
    match from_json(&Json::String(text.to_owned()), &ty)? {
        Value::DateTime(at) => Some(at.to_unix_micros()),
        _ => None,
    }
}

fn read_buckets(
    document: &Object,
    kind: HistogramKind,
    ty: &ColumnType,
) -> Result<Vec<Bucket>, DocumentError> {
    let buckets = match document.get("buckets") {
        Some(Json::Array(buckets)) if buckets.len() <= MAX_BUCKETS as usize => buckets,
        Some(Json::Array(_)) => return wrong_value("buckets"),
        Some(_) => return wrong_type("buckets"),
        None => return missing("buckets"),
    };
    let mut out: Vec<Bucket> = Vec::with_capacity(buckets.len());
    for (at, bucket) in buckets.iter().enumerate() {
        let wrong = || format!("Invalid bucket at '$.\"buckets\"[{at}]'.");
        let Some(bucket) = read_bucket(bucket, kind, ty) else {
            return invalid(wrong());
        };
        let before = out.last();
        let ascends = before.is_none_or(|before| {
            before.high.key < bucket.low.key && before.cumulative < bucket.cumulative
        });
        let is_valid = bucket.low.key <= bucket.high.key
            && bucket.distinct >= 1.0
            && (0.0..=1.0 + ROUNDING).contains(&bucket.cumulative);
        if !ascends || !is_valid {
            return invalid(wrong());
        }
        out.push(bucket);
    }
    Ok(out)
}

fn read_bucket(json: &Json, kind: HistogramKind, ty: &ColumnType) -> Option<Bucket> {
    let Json::Array(items) = json else {
        return None;
    };
    let bound = |json: &Json| Some(Bound::new(from_json(json, ty)?, ty));
    match (kind, items.as_slice()) {
        (HistogramKind::Singleton, [value, frequency]) => {
            let value = bound(value)?;
            Some(Bucket {
                low: value.clone(),
                high: value,
                cumulative: number(frequency)?,
                distinct: 1.0,
            })
        }
        (HistogramKind::EquiHeight, [low, high, frequency, distinct]) => Some(Bucket {
            low: bound(low)?,
            high: bound(high)?,
            cumulative: number(frequency)?,
            distinct: number(distinct)?,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(text: &str, ty: &ColumnType) {
        let read = Histogram::from_document(text.as_bytes(), ty, 7).unwrap();
        let printed = read.to_document().to_text();
        assert_eq!(String::from_utf8(printed).unwrap(), text);
    }

    const REST: &str = "\"auto-update\": false, \"null-values\": 0.5, \"collation-id\"";

    fn document(buckets: &str, data_type: &str, collation: u16, kind: &str) -> String {
        format!(
            "{{\"buckets\": {buckets}, \"data-type\": \"{data_type}\", {REST}: {collation}, \
             \"last-updated\": \"2024-05-06 07:08:09.000010\", \"sampling-rate\": 1.0, \
             \"histogram-type\": \"{kind}\", \"number-of-buckets-specified\": 3}}"
        )
    }

    #[test]
    fn documents_of_all_types_are_read_and_printed_alike() {
        let int = ColumnType::int(Kind::Int);
        round_trip(
            &document("[[-4, 0.25], [7, 0.5]]", "int", 8, "singleton"),
            &int,
        );
        round_trip(&document("[[1, 5, 0.5, 4]]", "int", 8, "equi-height"), &int);
        let text = ColumnType::varchar(9, Collation::UTF8MB4_GENERAL_CI);
        let of_text = document(
            "[[\"base64:type254:YWI=\", 0.5]]",
            "string",
            45,
            "singleton",
        );
        round_trip(&of_text, &text);
        let double = ColumnType::double();
        round_trip(&document("[[0.1, 0.5]]", "double", 8, "singleton"), &double);
        let at = "[[\"2020-01-02 03:04:05.000000\", 0.5]]";
        round_trip(
            &document(at, "datetime", 8, "singleton"),
            &ColumnType::datetime(0),
        );
        let decimal = ColumnType::decimal(5, 2);
        round_trip(
            &document("[[1.25, 0.5]]", "decimal", 8, "singleton"),
            &decimal,
        );
    }

    #[test]
    fn stored_documents_keep_values_exactly() {
        let histogram = |ty: ColumnType, values: &[Value]| {
            let part = 1.0 / values.len() as f64;
            let buckets = values.iter().enumerate().map(|(at, value)| Bucket {
                low: Bound::new(value.clone(), &ty),
                high: Bound::new(value.clone(), &ty),
                cumulative: part * (at + 1) as f64,
                distinct: 1.0,
            });
            let made = Histogram {
                buckets: buckets.collect(),
                kind: HistogramKind::Singleton,
                nulls: 0.0,
                sampling_rate: 1.0,
                buckets_wanted: 9,
                updated: 0,
                auto_update: true,
                ty: ty.clone(),
            };
            let text = made.to_stored_document().to_text();
            assert_eq!(Histogram::from_document(&text, &ty, 0).as_ref(), Ok(&made));
        };
        let decimal = |text: &str| {
            let mut ignored = |_| ();
            let mut cast = CastCx {
                mode: SqlMode::EMPTY,
                strict: true,
                warnings: &mut ignored,
                tz: &TimeZone::UTC,
                now: DateTime::ZERO,
            };
            let (from, to) = (
                ColumnType::varchar(65, Collation::UTF8MB4_BIN),
                ColumnType::decimal(40, 10),
            );
            store(
                ValueRef::Bytes(text.as_bytes()),
                Some(&from),
                &to,
                "",
                0,
                &mut cast,
            )
            .unwrap()
        };
        let near = [
            "123456789012345678901234567890.0000000001",
            "123456789012345678901234567890.0000000002",
        ];
        histogram(ColumnType::decimal(40, 10), &near.map(decimal));
        let members = ColumnType::enumeration(vec![b"x".to_vec().into()], Collation::UTF8MB4_BIN);
        histogram(members, &[Value::UInt(0), Value::UInt(1)]);
        let mut year = ColumnType::int(Kind::Int);
        year.kind = Kind::Year;
        histogram(year, &[Value::UInt(0), Value::UInt(1999)]);
        let double = ColumnType::double();
        histogram(double, &[Value::Double(-1e300), Value::Double(0.1 + 0.2)]);
    }

    #[test]
    fn other_documents_are_refused() {
        let int = ColumnType::int(Kind::Int);
        let error = |text: &str| match Histogram::from_document(text.as_bytes(), &int, 0) {
            Err(DocumentError::Invalid(text)) => text,
            other => panic!("{other:?}"),
        };
        let syntax = Histogram::from_document(b"{", &int, 0);
        assert!(matches!(syntax, Err(DocumentError::Syntax(_))));
        assert_eq!(error("[]"), "JSON data is not an object");
        assert_eq!(error("{}"), "Missing attribute at '$.\"histogram-type\"'.");
        let of = |buckets: &str| error(&document(buckets, "int", 8, "singleton"));
        assert!(of("[[1, 0.25], [1, 0.5]]").starts_with("Invalid bucket"));
        assert!(of("[[1, 0.5], [2, 0.25]]").starts_with("Invalid bucket"));
        assert!(of("[[\"x\", 0.5]]").starts_with("Invalid bucket"));
        assert!(of("[[1, 2, 0.5, 1]]").starts_with("Invalid bucket"));
        assert!(of("[[1, 0.25]]").starts_with("The sum"));
        let other = document("[]", "double", 8, "singleton");
        assert_eq!(error(&other), "Invalid value at '$.\"data-type\"'.");
    }
}
