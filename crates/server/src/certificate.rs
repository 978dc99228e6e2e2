//! Subject and issuer of an X.509 certificate, as REQUIRE SUBJECT and ISSUER compare them.
//!
//! A certificate is `SEQUENCE { tbs SEQUENCE { [0] version, serial, algorithm, issuer,
//! validity, subject, ... }, ... }` in DER (RFC 5280, 4.1). Names are printed in OpenSSL's
//! one-line form, as MySQL does: `/C=SE/O=Example/CN=client`. Callers pass only certificates that
//! the TLS library has verified.

/// Subject and issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The certificate's holder.
    pub subject: String,
    /// The authority that signed it.
    pub issuer: String,
    /// The subject's common name; `None` unless there is exactly one and it is text. It is read from
    /// the attribute itself: in the one-line form another attribute could contain `/CN=`.
    pub common_name: Option<String>,
}

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_ID: u8 = 0x06;
const VERSION: u8 = 0xA0;
const UTF8_STRING: u8 = 0x0C;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;

/// The attribute type of common names, 2.5.4.3.
const COMMON_NAME: &[u8] = b"\x55\x04\x03";

/// Reader of consecutive DER elements.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// Reads the next element: its tag and content.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, mut rest) = rest.split_first()?;
        let mut length = usize::from(first);
        if first & 0x80 != 0 {
            let digits = usize::from(first & 0x7F);
            if digits == 0 || digits > 4 {
                return None;
            }
            let (bytes, after) = rest.split_at_checked(digits)?;
            length = bytes.iter().fold(0, |n, b| n << 8 | usize::from(*b));
            rest = after;
        }
        let (content, after) = rest.split_at_checked(length)?;
        self.0 = after;
        Some((tag, content))
    }

    /// Reads the next element and returns its content; `None` if its tag is not `tag`.
    fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(t, _)| *t == tag).map(|(_, c)| c)
    }
}

/// Parses the names in a certificate (DER); `None` if it is malformed.
pub fn names(certificate: &[u8]) -> Option<Names> {
    let mut tbs = Der(Der(Der(certificate).expect(SEQUENCE)?).expect(SEQUENCE)?);
    let (tag, _) = tbs.next()?;
    if tag == VERSION {
        tbs.next()?;
    }
    tbs.expect(SEQUENCE)?;
    let issuer = one_line(&attributes(tbs.expect(SEQUENCE)?)?);
    tbs.expect(SEQUENCE)?;
    let subject = attributes(tbs.expect(SEQUENCE)?)?;
    Some(Names {
        subject: one_line(&subject),
        issuer,
        common_name: common_name(&subject),
    })
}

/// An attribute of a distinguished name.
struct Attribute<'a> {
    /// Type of the attribute, an object identifier.
    kind: &'a [u8],
    /// Tag of the value.
    tag: u8,
    value: &'a [u8],
}

/// Parses the attributes of a distinguished name, in order.
fn attributes(name: &[u8]) -> Option<Vec<Attribute<'_>>> {
    let mut all = Vec::new();
    let mut sets = Der(name);
    while !sets.0.is_empty() {
        let mut set = Der(sets.expect(SET)?);
        while !set.0.is_empty() {
            let mut pair = Der(set.expect(SEQUENCE)?);
            let kind = pair.expect(OBJECT_ID)?;
            let (tag, value) = pair.next()?;
            all.push(Attribute { kind, tag, value });
        }
    }
    Some(all)
}

/// Returns the only common name among the attributes, if it is text without control characters.
fn common_name(attributes: &[Attribute<'_>]) -> Option<String> {
    let mut names = attributes.iter().filter(|a| a.kind == COMMON_NAME);
    let name = names.next().filter(|_| names.next().is_none())?;
    let text = match name.tag {
        UTF8_STRING | PRINTABLE_STRING | IA5_STRING => std::str::from_utf8(name.value).ok()?,
        _ => return None,
    };
    let is_printable = !text.is_empty() && !text.chars().any(char::is_control);
    is_printable.then(|| text.to_owned())
}

/// Formats a distinguished name in OpenSSL's one-line form.
fn one_line(attributes: &[Attribute<'_>]) -> String {
    let mut line = String::new();
    for attribute in attributes {
        line.push('/');
        line.push_str(&attribute_name(attribute.kind));
        line.push('=');
        for &byte in attribute.value {
            match byte {
                b' '..=b'~' => line.push(char::from(byte)),
                other => line.push_str(&format!("\\x{other:02X}")),
            }
        }
    }
    line
}

/// Returns the short name of an attribute type, or its dotted numbers if it has none.
fn attribute_name(id: &[u8]) -> String {
    let known = match id {
        [0x55, 0x04, last] => match last {
            3 => "CN",
            4 => "SN",
            5 => "serialNumber",
            6 => "C",
            7 => "L",
            8 => "ST",
            9 => "street",
            10 => "O",
            11 => "OU",
            12 => "title",
            42 => "GN",
            _ => "",
        },
        b"\x2A\x86\x48\x86\xF7\x0D\x01\x09\x01" => "emailAddress",
        b"\x09\x92\x26\x89\x93\xF2\x2C\x64\x01\x19" => "DC",
        b"\x09\x92\x26\x89\x93\xF2\x2C\x64\x01\x01" => "UID",
        _ => "",
    };
    if !known.is_empty() {
        return known.to_owned();
    }
    let mut numbers = Vec::new();
    let mut number = 0u64;
    for &byte in id {
        number = number << 7 | u64::from(byte & 0x7F);
        if byte & 0x80 == 0 {
            if numbers.is_empty() {
                let first = (number / 40).min(2);
                numbers.push(first.to_string());
                number -= first * 40;
            }
            numbers.push(number.to_string());
            number = 0;
        }
    }
    numbers.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, IsCa, Issuer, KeyPair};

    #[test]
    fn names_are_printed_in_the_one_line_form() {
        let key = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::new(Vec::<String>::new()).unwrap();
        authority.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        authority.distinguished_name = rcgen::DistinguishedName::new();
        authority
            .distinguished_name
            .push(DnType::OrganizationName, "Example");
        authority
            .distinguished_name
            .push(DnType::CommonName, "authority");
        let issuer = Issuer::new(authority, key);
        let own = KeyPair::generate().unwrap();
        let mut client = CertificateParams::new(Vec::<String>::new()).unwrap();
        client.distinguished_name = rcgen::DistinguishedName::new();
        client.distinguished_name.push(DnType::CountryName, "SE");
        client
            .distinguished_name
            .push(DnType::CommonName, "a client\u{e9}");
        let certificate = client.signed_by(&own, &issuer).unwrap();
        let found = names(certificate.der()).unwrap();
        assert_eq!(found.issuer, "/O=Example/CN=authority");
        assert_eq!(found.subject, "/C=SE/CN=a client\\xC3\\xA9");
        assert_eq!(found.common_name.as_deref(), Some("a client\u{e9}"));
        for length in [0, 1, 5, 40] {
            assert_eq!(names(&certificate.der()[..length]), None, "{length}");
        }
    }

    /// The names of a certificate with these attributes.
    fn names_of(attributes: &[(DnType, &str)]) -> Names {
        let own = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in attributes {
            params.distinguished_name.push(kind.clone(), *value);
        }
        names(params.self_signed(&own).unwrap().der()).unwrap()
    }

    #[test]
    fn another_attribute_is_never_taken_for_the_common_name() {
        let names = names_of(&[
            (DnType::OrganizationName, "x/CN=root"),
            (DnType::CommonName, "client"),
        ]);
        assert_eq!(names.subject, "/O=x/CN=root/CN=client");
        assert_eq!(names.common_name.as_deref(), Some("client"));
        let without = names_of(&[(DnType::OrganizationName, "x/CN=root")]);
        assert_eq!(without.common_name, None);
        let control = names_of(&[(DnType::CommonName, "root\0.example")]);
        assert_eq!(control.common_name, None);
        let slash = names_of(&[(DnType::CommonName, "a/b")]);
        assert_eq!(slash.common_name.as_deref(), Some("a/b"));
    }

    #[test]
    fn unknown_attributes_have_their_numbers() {
        assert_eq!(attribute_name(b"\x55\x04\x2E"), "2.5.4.46");
        assert_eq!(
            attribute_name(b"\x2A\x86\x48\x86\xF7\x0D\x01\x09\x02"),
            "1.2.840.113549.1.9.2"
        );
    }
}
