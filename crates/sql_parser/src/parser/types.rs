//! Data types, character sets, collations.

use super::super::ast::{DataType, Ident, Member, TypeKind};
use super::super::deprecated::Deprecation;
use super::super::keyword::Keyword as Kw;
use super::super::token::{Span, TokenKind as K};
use super::{PResult, Parser};

/// The replacement of ASCII and UNICODE.
const CHARSET_CLAUSE: &str = "CHARACTER SET charset_name";

impl DataType<'_> {
    /// A type without any attribute.
    pub(super) const fn plain(kind: TypeKind) -> Self {
        DataType {
            kind,
            length: None,
            decimals: None,
            unsigned: false,
            zerofill: false,
            charset: None,
            binary: false,
            collation: None,
            members: &[],
            span: Span::new(0, 0),
        }
    }
}

impl<'a> Parser<'a> {
    /// A type with its attributes.
    pub(super) fn data_type(&mut self) -> PResult<DataType<'a>> {
        let start = self.token.start;
        let keyword = if self.is(K::Word) {
            self.token.keyword
        } else {
            Kw::NONE
        };
        let Some(kind) = type_kind(keyword) else {
            return self.error();
        };
        self.advance();
        let mut ty = DataType::plain(kind);
        match keyword {
            Kw::BOOL | Kw::BOOLEAN => ty.length = Some(1),
            Kw::DOUBLE => {
                self.eat_kw(Kw::PRECISION);
            }
            Kw::CHAR | Kw::CHARACTER if self.is_kw(Kw::VARYING) => {
                self.advance();
                ty.kind = TypeKind::VarChar;
            }
            Kw::NATIONAL | Kw::NCHAR | Kw::NVARCHAR => self.national(keyword, &mut ty)?,
            Kw::LONG => self.long(&mut ty),
            Kw::ENUM | Kw::SET => ty.members = self.paren_list(Self::member)?,
            _ => {}
        }
        self.type_length(&mut ty)?;
        if matches!(ty.kind, TypeKind::VarChar | TypeKind::VarBinary) && ty.length.is_none() {
            return self.error();
        }
        self.type_attributes(&mut ty)?;
        self.note_deprecated_numbers(&ty, keyword);
        ty.span = Span::new(start, self.last_end);
        Ok(ty)
    }

    /// A member of ENUM or SET: a string, or a hexadecimal or bit literal.
    fn member(&mut self) -> PResult<Member<'a>> {
        let is_binary = !matches!(self.token.kind, K::String | K::NationalString);
        let bytes = if is_binary {
            self.binary_literal()?
        } else {
            self.string()?
        };
        Ok(Member { bytes, is_binary })
    }

    /// Records deprecated attributes of a number's type.
    fn note_deprecated_numbers(&mut self, ty: &DataType<'a>, keyword: Kw) {
        use TypeKind as T;
        let explicit = ty.length.is_some() && !matches!(keyword, Kw::BOOL | Kw::BOOLEAN);
        match ty.kind {
            T::TinyInt | T::SmallInt | T::MediumInt | T::Int | T::BigInt if explicit => {
                self.note_deprecated(Deprecation::IntegerWidth);
            }
            T::Year if explicit => {
                self.note_deprecated(Deprecation::Replaced("YEAR(4)", "YEAR"));
            }
            T::Float | T::Double | T::Real if ty.decimals.is_some() => {
                self.note_deprecated(Deprecation::FloatDigits);
            }
            _ => {}
        }
        match ty.kind {
            T::Float | T::Double | T::Real | T::Decimal if ty.unsigned && !ty.zerofill => {
                self.note_deprecated(Deprecation::FloatUnsigned);
            }
            T::Year if ty.unsigned && !ty.zerofill => {
                self.note_deprecated(Deprecation::YearUnsigned);
            }
            _ => {}
        }
    }

    /// `NATIONAL CHAR`, `NCHAR VARYING` and the like, which are in utf8mb3.
    fn national(&mut self, keyword: Kw, ty: &mut DataType<'a>) -> PResult<()> {
        if keyword == Kw::NATIONAL {
            ty.kind =
                match self.eat_any_kw(&[Kw::CHAR, Kw::CHARACTER, Kw::VARCHAR, Kw::VARCHARACTER]) {
                    Some(Kw::CHAR | Kw::CHARACTER) => TypeKind::Char,
                    Some(_) => TypeKind::VarChar,
                    None => return self.error(),
                };
        } else if keyword == Kw::NCHAR
            && self.eat_any_kw(&[Kw::VARCHAR, Kw::VARCHARACTER]).is_some()
        {
            ty.kind = TypeKind::VarChar;
        }
        if self.eat_kw(Kw::VARYING) {
            ty.kind = TypeKind::VarChar;
        }
        ty.charset = Some(Ident {
            name: "utf8mb3",
            span: self.token.span(),
        });
        self.note_deprecated(Deprecation::National);
        Ok(())
    }

    /// `LONG`, `LONG VARCHAR`, `LONG VARBINARY`
    fn long(&mut self, ty: &mut DataType<'a>) {
        if self.eat_kw(Kw::VARBINARY) {
            ty.kind = TypeKind::MediumBlob;
            return;
        }
        if self.eat_any_kw(&[Kw::CHAR, Kw::CHARACTER]).is_some() {
            self.eat_kw(Kw::VARYING);
        } else {
            self.eat_any_kw(&[Kw::VARCHAR, Kw::VARCHARACTER]);
        }
    }

    fn type_length(&mut self, ty: &mut DataType<'a>) -> PResult<()> {
        if ty.kind == TypeKind::Serial || !self.is(K::LeftParen) {
            return Ok(());
        }
        self.advance();
        ty.length = Some(self.uint()?);
        if self.eat(K::Comma) {
            ty.decimals = Some(self.uint()?);
        }
        self.expect(K::RightParen)?;
        Ok(())
    }

    fn type_attributes(&mut self, ty: &mut DataType<'a>) -> PResult<()> {
        let (numeric, text) = (is_numeric(ty.kind), is_text(ty.kind));
        loop {
            match self.token.keyword {
                Kw::UNSIGNED if numeric => ty.unsigned = true,
                Kw::SIGNED if numeric => {}
                Kw::ZEROFILL if numeric => {
                    ty.zerofill = true;
                    ty.unsigned = true;
                    self.note_deprecated(Deprecation::Zerofill);
                }
                Kw::BINARY if text => {
                    ty.binary = true;
                    let replacement = "a CHARACTER SET clause with _bin collation";
                    let what = "BINARY as attribute of a type";
                    self.note_deprecated(Deprecation::Replaced(what, replacement));
                }
                Kw::ASCII if text => {
                    self.note_deprecated(Deprecation::Replaced("ASCII", CHARSET_CLAUSE));
                    ty.charset = Some(Ident {
                        name: "latin1",
                        span: self.token.span(),
                    })
                }
                Kw::UNICODE if text => {
                    self.note_deprecated(Deprecation::Replaced("UNICODE", CHARSET_CLAUSE));
                    ty.charset = Some(Ident {
                        name: "ucs2",
                        span: self.token.span(),
                    })
                }
                Kw::BYTE if text => {
                    ty.charset = Some(Ident {
                        name: "binary",
                        span: self.token.span(),
                    })
                }
                Kw::CHARACTER | Kw::CHARSET | Kw::CHAR if text => {
                    if !self.eat_charset_words() {
                        return self.error();
                    }
                    ty.charset = Some(self.charset_name()?);
                    continue;
                }
                Kw::COLLATE if text => {
                    self.advance();
                    ty.collation = Some(self.collation_name()?);
                    continue;
                }
                _ => return Ok(()),
            }
            self.advance();
        }
    }

    /// The name of a character set.
    pub(super) fn charset_name(&mut self) -> PResult<Ident<'a>> {
        if self.is_kw(Kw::DEFAULT) {
            return self.error();
        }
        let name = self.ident_or_string()?;
        self.note_charset(name.name);
        Ok(name)
    }

    /// Records the name of a character set if it is deprecated.
    pub(super) fn note_charset(&mut self, name: &'a str) {
        let deprecation = Deprecation::Charset(name);
        if deprecation.warning().is_some() {
            self.note_deprecated(deprecation);
        }
    }

    /// The name of a collation.
    pub(super) fn collation_name(&mut self) -> PResult<Ident<'a>> {
        let name = self.ident_or_string()?;
        let deprecation = Deprecation::Collation(name.name);
        if deprecation.warning().is_some() {
            self.note_deprecated(deprecation);
        }
        Ok(name)
    }

    /// The name of a character set, or DEFAULT.
    pub(super) fn charset_or_default(&mut self) -> PResult<Option<Ident<'a>>> {
        if self.eat_kw(Kw::DEFAULT) {
            return Ok(None);
        }
        self.charset_name().map(Some)
    }

    /// The name of a collation, or DEFAULT.
    pub(super) fn collation_or_default(&mut self) -> PResult<Option<Ident<'a>>> {
        if self.eat_kw(Kw::DEFAULT) {
            return Ok(None);
        }
        self.collation_name().map(Some)
    }
}

fn type_kind(keyword: Kw) -> Option<TypeKind> {
    use TypeKind as T;
    Some(match keyword {
        Kw::TINYINT | Kw::INT1 | Kw::BOOL | Kw::BOOLEAN => T::TinyInt,
        Kw::SMALLINT | Kw::INT2 => T::SmallInt,
        Kw::MEDIUMINT | Kw::MIDDLEINT | Kw::INT3 => T::MediumInt,
        Kw::INT | Kw::INTEGER | Kw::INT4 => T::Int,
        Kw::BIGINT | Kw::INT8 => T::BigInt,
        Kw::FLOAT | Kw::FLOAT4 => T::Float,
        Kw::DOUBLE | Kw::FLOAT8 => T::Double,
        Kw::REAL => T::Real,
        Kw::DECIMAL | Kw::DEC | Kw::NUMERIC | Kw::FIXED => T::Decimal,
        Kw::BIT => T::Bit,
        Kw::YEAR => T::Year,
        Kw::DATE => T::Date,
        Kw::DATETIME => T::DateTime,
        Kw::TIMESTAMP => T::Timestamp,
        Kw::TIME => T::Time,
        Kw::CHAR | Kw::CHARACTER | Kw::NCHAR | Kw::NATIONAL => T::Char,
        Kw::VARCHAR | Kw::VARCHARACTER | Kw::NVARCHAR => T::VarChar,
        Kw::TINYTEXT => T::TinyText,
        Kw::TEXT => T::Text,
        Kw::MEDIUMTEXT | Kw::LONG => T::MediumText,
        Kw::LONGTEXT => T::LongText,
        Kw::BINARY => T::Binary,
        Kw::VARBINARY => T::VarBinary,
        Kw::TINYBLOB => T::TinyBlob,
        Kw::BLOB => T::Blob,
        Kw::MEDIUMBLOB => T::MediumBlob,
        Kw::LONGBLOB => T::LongBlob,
        Kw::ENUM => T::Enum,
        Kw::SET => T::Set,
        Kw::JSON => T::Json,
        Kw::SERIAL => T::Serial,
        Kw::GEOMETRY => T::Geometry,
        Kw::POINT => T::Point,
        Kw::LINESTRING => T::LineString,
        Kw::POLYGON => T::Polygon,
        Kw::MULTIPOINT => T::MultiPoint,
        Kw::MULTILINESTRING => T::MultiLineString,
        Kw::MULTIPOLYGON => T::MultiPolygon,
        Kw::GEOMETRYCOLLECTION | Kw::GEOMCOLLECTION => T::GeometryCollection,
        _ => return None,
    })
}

/// Whether UNSIGNED and ZEROFILL may follow a type.
fn is_numeric(kind: TypeKind) -> bool {
    use TypeKind as T;
    matches!(
        kind,
        T::TinyInt
            | T::SmallInt
            | T::MediumInt
            | T::Int
            | T::BigInt
            | T::Float
            | T::Double
            | T::Real
            | T::Decimal
            | T::Year
    )
}

/// Whether a character set may follow a type.
fn is_text(kind: TypeKind) -> bool {
    use TypeKind as T;
    matches!(
        kind,
        T::Char
            | T::VarChar
            | T::TinyText
            | T::Text
            | T::MediumText
            | T::LongText
            | T::Enum
            | T::Set
    )
}
