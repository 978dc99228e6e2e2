//! SQL text of column types.

use super::{ColumnType, Kind, NOT_FIXED_DECIMALS};
use crate::collation::Charset;

impl ColumnType {
    /// The type in SQL as SHOW CREATE TABLE prints it, in lower case, without
    /// character set and collation.
    #[must_use]
    pub fn sql(&self) -> String {
        let mut text = self.sql_base();
        if self.unsigned && (self.kind.int_bits() > 0 || self.is_approximate_or_decimal()) {
            text.push_str(" unsigned");
        }
        if self.zerofill {
            text.push_str(" zerofill");
        }
        text
    }

    fn is_approximate_or_decimal(&self) -> bool {
        matches!(self.kind, Kind::Float | Kind::Double | Kind::Decimal)
    }

    fn sql_base(&self) -> String {
        let (length, decimals) = (self.length, self.decimals);
        // The display width of integers is shown where MySQL 8 shows it: with
        // ZEROFILL, and for TINYINT(1).
        let int = |name: &str| {
            let shown =
                self.zerofill || (self.kind == Kind::TinyInt && length == 1 && !self.unsigned);
            if shown && length > 0 {
                format!("{name}({length})")
            } else {
                name.to_owned()
            }
        };
        let real = |name: &str| {
            if decimals < NOT_FIXED_DECIMALS && length > 0 {
                format!("{name}({length},{decimals})")
            } else {
                name.to_owned()
            }
        };
        let fsp = |name: &str| {
            if decimals > 0 {
                format!("{name}({decimals})")
            } else {
                name.to_owned()
            }
        };
        match self.kind {
            Kind::TinyInt => int("tinyint"),
            Kind::SmallInt => int("smallint"),
            Kind::MediumInt => int("mediumint"),
            Kind::Int => int("int"),
            Kind::BigInt => int("bigint"),
            Kind::Float => real("float"),
            Kind::Double => real("double"),
            Kind::Decimal => format!("decimal({length},{decimals})"),
            Kind::Bit => format!("bit({length})"),
            Kind::Year => "year".to_owned(),
            Kind::Date => "date".to_owned(),
            Kind::DateTime => fsp("datetime"),
            Kind::Timestamp => fsp("timestamp"),
            Kind::Time => fsp("time"),
            Kind::Char => format!("char({length})"),
            Kind::VarChar => format!("varchar({length})"),
            Kind::Binary => format!("binary({length})"),
            Kind::VarBinary => format!("varbinary({length})"),
            Kind::TinyText => "tinytext".to_owned(),
            Kind::Text => "text".to_owned(),
            Kind::MediumText => "mediumtext".to_owned(),
            Kind::LongText => "longtext".to_owned(),
            Kind::TinyBlob => "tinyblob".to_owned(),
            Kind::Blob => "blob".to_owned(),
            Kind::MediumBlob => "mediumblob".to_owned(),
            Kind::LongBlob => "longblob".to_owned(),
            Kind::Enum => self.sql_members("enum"),
            Kind::Set => self.sql_members("set"),
            Kind::Json => "json".to_owned(),
            Kind::Null => "null".to_owned(),
        }
    }

    fn sql_members(&self, name: &str) -> String {
        let mut text = format!("{name}(");
        for (i, member) in self.members.iter().enumerate() {
            if i > 0 {
                text.push(',');
            }
            let (utf8, _) = self.collation.charset().convert(Charset::Utf8mb4, member);
            text.push('\'');
            text.push_str(&String::from_utf8_lossy(&utf8).replace('\'', "''"));
            text.push('\'');
        }
        text.push(')');
        text
    }
}
