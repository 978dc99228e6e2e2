//! Keys order as values do, and decode to the same values.

use std::cmp::Ordering;

use porpoise_types::compare::{compare_direct, same_type};
use porpoise_types::key::{decode_key_part, is_decodable, key_width};
use porpoise_types::{
    Collation, ColumnType, Value, ValueRef, decode_key, encode_key, encode_key_prefix,
};
use proptest::prelude::*;

use crate::{bytes, collation, column, pair, value};

fn key(v: &Value, ty: &ColumnType, nullable: bool, desc: bool) -> Vec<u8> {
    let mut out = Vec::new();
    encode_key(v.as_ref(), ty, nullable, desc, &mut out);
    out
}

fn order(a: &Value, b: &Value, ty: &ColumnType) -> Ordering {
    match (a.is_null(), b.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        _ => compare_direct(a.as_ref(), b.as_ref(), same_type(ty)).unwrap(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn keys_order_as_values((ty, a, b) in pair(), desc: bool) {
        let (ka, kb) = (key(&a, &ty, true, desc), key(&b, &ty, true, desc));
        let wanted = order(&a, &b, &ty);
        prop_assert_eq!(ka.cmp(&kb), if desc { wanted.reverse() } else { wanted });
        // No key begins another, so nothing after it can decide.
        prop_assert!(ka == kb || !ka.starts_with(&kb));
        if !a.is_null() && !b.is_null() {
            prop_assert_eq!(key(&a, &ty, false, false).cmp(&key(&b, &ty, false, false)), wanted);
        }
    }

    #[test]
    fn composite_keys_order_part_by_part((t1, a1, b1) in pair(), (t2, a2, b2) in pair(), desc: bool) {
        let whole = |x: &Value, y: &Value| {
            let mut out = key(x, &t1, true, desc);
            out.extend(key(y, &t2, true, false));
            out
        };
        let first = order(&a1, &b1, &t1);
        let first = if desc { first.reverse() } else { first };
        prop_assert_eq!(whole(&a1, &a2).cmp(&whole(&b1, &b2)), first.then(order(&a2, &b2, &t2)));
    }

    #[test]
    fn decodable_keys_round_trip((ty, a, b) in pair(), desc: bool) {
        let mut bytes = key(&a, &ty, true, desc);
        bytes.extend(key(&b, &ty, true, desc));
        let mut rest = bytes.as_slice();
        let back = decode_key_part(&ty, true, desc, &mut rest);
        if is_decodable(&ty) || a.is_null() {
            let back = back.unwrap();
            prop_assert_eq!(order(&back, &a, &ty), Ordering::Equal);
            prop_assert_eq!(decode_key_part(&ty, true, desc, &mut rest).is_some(), is_decodable(&ty) || b.is_null());
            if is_decodable(&ty) {
                prop_assert!(rest.is_empty());
            }
        } else {
            prop_assert_eq!(back, None);
        }
    }

    #[test]
    fn widths_are_as_stated((ty, v) in column().prop_flat_map(|ty| (Just(ty.clone()), value(&ty)))) {
        if let Some(width) = key_width(&ty, false) {
            prop_assert_eq!(key(&v, &ty, false, false).len(), width);
        }
    }

    #[test]
    fn decoding_any_bytes_is_safe(ty in column(), bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let mut rest = bytes.as_slice();
        if decode_key(&ty, true, &mut rest).is_some() {
            prop_assert!(rest.len() < bytes.len());
        } else {
            prop_assert!(rest.len() <= bytes.len());
        }
    }

    #[test]
    fn prefix_keys_are_keys_of_prefixes(c in collation(), text in bytes(), chars in 0u32..5) {
        let ty = ColumnType::varchar(100, c);
        let len = c.charset().prefix_len(&text, chars as usize);
        let mut out = Vec::new();
        encode_key_prefix(ValueRef::Bytes(&text), &ty, chars, true, false, &mut out);
        prop_assert_eq!(out, key(&Value::Bytes(text[..len].to_vec()), &ty, true, false));
    }
}

#[test]
fn equal_values_have_equal_keys() {
    let ci = ColumnType::varchar(10, Collation::UTF8MB4_GENERAL_CI);
    let text = |t: &str| key(&Value::Bytes(t.as_bytes().to_vec()), &ci, false, false);
    assert_eq!(text("Ab  "), text("aB"));
    assert_ne!(text("ab"), text("a b"));
    let double = ColumnType::double();
    let zero = |v: f64| key(&Value::Double(v), &double, false, false);
    assert_eq!(zero(0.0), zero(-0.0));
}

#[test]
fn the_format_is_fixed() {
    let int = key(
        &Value::Int(-2),
        &ColumnType::int(porpoise_types::Kind::Int),
        true,
        false,
    );
    assert_eq!(int, [1, 0x7F, 0xFF, 0xFF, 0xFE]);
    let binary = key(
        &Value::Bytes(vec![1, 0, 2]),
        &ColumnType::varbinary(9),
        true,
        false,
    );
    assert_eq!(binary, [1, 1, 0, 0xFF, 2, 0, 0]);
    let ci = ColumnType::varchar(9, Collation::UTF8MB4_GENERAL_CI);
    assert_eq!(
        key(&Value::Bytes(b"ab ".to_vec()), &ci, true, false),
        [1, b'A' + 2, b'B' + 2, 0x21]
    );
    let decimal = ColumnType::decimal(5, 2);
    let v = Value::Decimal(porpoise_types::Decimal::parse(b"-1.5").unwrap());
    assert_eq!(key(&v, &decimal, false, false), [0x7F, 0xFF, 0x6A]);
    assert_eq!(key(&Value::Null, &decimal, true, true), [0xFF]);
}
