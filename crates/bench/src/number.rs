//! Short forms of numbers.

/// A number with a unit's prefix, three digits: `151 k`, `2.53 M`, `38.1`.
pub fn short(n: f64) -> String {
    let size = n.abs();
    let (scaled, suffix) = if size >= 1e6 {
        (n / 1e6, " M")
    } else if size >= 1e4 {
        (n / 1e3, " k")
    } else {
        (n, "")
    };
    let digits = match scaled.abs() {
        s if s >= 100.0 || s == 0.0 => 0,
        s if s >= 10.0 => 1,
        _ => 2,
    };
    format!("{scaled:.digits$}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (n, text) in [
            (0.0, "0"),
            (3.456, "3.46"),
            (38.12, "38.1"),
            (4567.8, "4568"),
            (151_234.0, "151 k"),
            (2_534_000.0, "2.53 M"),
        ] {
            assert_eq!(short(n), text);
        }
    }
}
