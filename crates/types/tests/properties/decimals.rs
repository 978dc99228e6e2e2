//! Decimal arithmetic against 128-bit integers, and across the 128-bit border.

use std::cmp::Ordering;

use porpoise_types::Decimal;
use proptest::prelude::*;

use crate::decimal;

fn small() -> impl Strategy<Value = (i64, u8)> {
    (
        prop_oneof![
            any::<i64>(),
            -1000i64..1000,
            any::<i32>().prop_map(i64::from)
        ],
        0u8..=9,
    )
}

fn make((v, scale): (i64, u8)) -> Decimal {
    Decimal::from_i128(i128::from(v), scale).unwrap()
}

fn pow(n: u8) -> i128 {
    10i128.pow(u32::from(n))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn sums_products_and_remainders(a in small(), b in small()) {
        let (x, y) = (make(a), make(b));
        let scale = a.1.max(b.1);
        let (sa, sb) = (i128::from(a.0) * pow(scale - a.1), i128::from(b.0) * pow(scale - b.1));
        let exact = |v, s| Decimal::from_i128(v, s).unwrap();
        prop_assert_eq!(x.add(y).unwrap(), exact(sa + sb, scale));
        prop_assert_eq!(x.sub(y).unwrap(), exact(sa - sb, scale));
        prop_assert_eq!(x.mul(y).unwrap(), exact(i128::from(a.0) * i128::from(b.0), a.1 + b.1));
        prop_assert_eq!(x.cmp_value(&y), sa.cmp(&sb));
        if sb == 0 {
            prop_assert_eq!(x.div(y, 4).unwrap(), None);
            prop_assert_eq!(x.rem(y).unwrap(), None);
        } else {
            prop_assert_eq!(x.rem(y).unwrap(), Some(exact(sa % sb, scale)));
            prop_assert_eq!(x.div_int(y).unwrap(), Some(exact(sa / sb, 0)));
            // The quotient is cut: quotient * b <= a < (quotient + ulp) * b, in magnitude.
            let q = x.div(y, 4).unwrap().unwrap();
            prop_assert!(q.scale() >= (a.1 + 4).min(30));
            // Products past 30 digits of fraction are cut, so say nothing.
            if q.scale() + b.1 > 30 {
                return Ok(());
            }
            let ulp = Decimal::from_i128(1, q.scale()).unwrap();
            let low = q.abs().mul(y.abs()).unwrap();
            let high = q.abs().add(ulp).unwrap().mul(y.abs()).unwrap();
            prop_assert_ne!(low.cmp_value(&x.abs()), Ordering::Greater);
            prop_assert_eq!(high.cmp_value(&x.abs()), Ordering::Greater);
        }
    }

    #[test]
    fn rounding(a in small(), places in 0u8..9) {
        let x = make(a);
        let rounded = x.round(places).unwrap();
        if a.1 > places {
            let unit = pow(a.1 - places);
            let v = i128::from(a.0);
            let wanted = (v.abs() + unit / 2) / unit * v.signum();
            prop_assert_eq!(rounded, Decimal::from_i128(wanted, places).unwrap());
            prop_assert_eq!(x.truncate(places), Decimal::from_i128(v / unit, places).unwrap());
        } else {
            prop_assert_eq!(rounded, x);
        }
        let v = i128::from(a.0);
        prop_assert_eq!(x.floor().unwrap(), Decimal::from_i128(v.div_euclid(pow(a.1)), 0).unwrap());
        prop_assert_eq!(x.ceil().unwrap(), Decimal::from_i128(-(-v).div_euclid(pow(a.1)), 0).unwrap());
    }

    #[test]
    fn large_numbers_keep_the_laws(a in decimal(60, 10), b in decimal(40, 30), c in decimal(30, 0)) {
        let sum = a.add(b).unwrap();
        prop_assert_eq!(sum, b.add(a).unwrap());
        // The scale of a sum of 50 and 30 digits does not fit whole.
        let exact = a.scale() <= 10 && b.scale() <= 20;
        if exact {
            prop_assert_eq!(sum.sub(b).unwrap().cmp_value(&a), Ordering::Equal);
        }
        if !c.is_zero() && let Ok(product) = a.mul(c) && product.scale() == a.scale() {
            prop_assert_eq!(product.div_int(c).unwrap().map(|q| q.cmp_value(&a.truncate(0))), Some(Ordering::Equal));
            prop_assert!(product.rem(c).unwrap().unwrap().abs().cmp_value(&c.abs()).is_lt());
        }
    }

    #[test]
    fn text_and_bytes_round_trip(d in decimal(65, 30)) {
        prop_assert_eq!(Decimal::parse(d.to_string().as_bytes()), Ok(d));
        let mut bytes = Vec::new();
        d.encode(65, 30, &mut bytes);
        let mut rest = bytes.as_slice();
        prop_assert_eq!(Decimal::decode(65, 30, &mut rest), Some(d.rescale(30).unwrap()));
        prop_assert!(rest.is_empty());
        prop_assert_eq!(d.normalized().cmp_value(&d), Ordering::Equal);
    }

    #[test]
    fn hashable_forms_are_equal_for_equal_numbers(a in decimal(65, 30), b in decimal(4, 3), more in 0u8..10) {
        let form = |d: Decimal| {
            let mut bytes = Vec::new();
            d.append_hashable(&mut bytes);
            bytes
        };
        let scale = (a.scale() + more).min(30);
        if let Ok(longer) = a.rescale(scale) {
            prop_assert_eq!(form(longer), form(a));
        }
        prop_assert_eq!(form(a) == form(b), a.cmp_value(&b).is_eq());
        prop_assert_eq!(form(a.neg()) == form(a), a.is_zero());
        let text = a.to_string();
        let shortest = if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.')
        } else {
            &text
        };
        prop_assert_eq!(a.normalized().to_string(), shortest);
    }

    #[test]
    fn doubles_are_nearest(d in decimal(40, 20)) {
        let wanted: f64 = d.to_string().parse().unwrap();
        prop_assert_eq!(d.to_f64(), wanted);
    }

    #[test]
    fn integers_round_trip(v: i64, u: u64) {
        prop_assert_eq!(Decimal::from_i64(v).to_i64(), Some(v));
        prop_assert_eq!(Decimal::from_u64(u).to_u64(), Some(u));
        prop_assert_eq!(Decimal::from_i64(v).to_string(), v.to_string());
    }
}

#[test]
fn limits() {
    let max = Decimal::max_value(65, 0);
    assert_eq!(max.to_string(), "9".repeat(65));
    assert_eq!(
        max.add(Decimal::from_i64(1)).unwrap().to_string(),
        format!("1{}", "0".repeat(65))
    );
    assert!(max.mul(max).is_err());
    assert!(Decimal::parse("9".repeat(66).as_bytes()).is_err());
    assert_eq!(
        Decimal::parse(b"1e-31").unwrap().to_string(),
        format!("0.{}", "0".repeat(30))
    );
    assert_eq!(
        Decimal::parse(b"5e-31").unwrap().to_string(),
        format!("0.{}1", "0".repeat(29))
    );
    assert_eq!(Decimal::parse(b"1.5e3").unwrap().to_string(), "1500");
    assert_eq!(Decimal::parse(b"-.5").unwrap().to_string(), "-0.5");
    assert_eq!(Decimal::parse(b"-0.00").unwrap().to_string(), "0.00");
    assert_eq!(Decimal::from_i64(i64::MIN).to_i64(), Some(i64::MIN));
    assert_eq!(
        Decimal::parse(b"9223372036854775807.5").unwrap().to_i64(),
        None
    );
    assert_eq!(Decimal::from_f64(1.0).unwrap().to_string(), "1");
    assert!(Decimal::from_f64(f64::NAN).is_err());
    // The cut of a product's scale.
    let tiny = Decimal::parse(b"0.1234567890123456789").unwrap();
    assert_eq!(
        tiny.mul(tiny).unwrap().to_string(),
        "0.015241578753238836750190519987"
    );
    assert!(size_of::<Decimal>() <= 40 && size_of::<porpoise_types::ValueRef<'_>>() <= 48);
}
