//! FORMAT_BYTES and FORMAT_PICO_TIME (manual, "Performance Schema Functions").

use super::{Call, Function, Nullable, text_of};
use crate::error::Result;
use porpoise_types::ValueRef;

/// A unit: its size in the base unit, and its name.
type Unit = (f64, &'static str);

const KIB: f64 = 1024.0;

/// Units of memory, largest first.
const BYTES: [Unit; 7] = [
    (KIB * KIB * KIB * KIB * KIB * KIB, "EiB"),
    (KIB * KIB * KIB * KIB * KIB, "PiB"),
    (KIB * KIB * KIB * KIB, "TiB"),
    (KIB * KIB * KIB, "GiB"),
    (KIB * KIB, "MiB"),
    (KIB, "KiB"),
    (1.0, "bytes"),
];

/// Units of time in picoseconds, largest first.
const TIMES: [Unit; 8] = [
    (86_400e12, "d"),
    (3_600e12, "h"),
    (60e12, "min"),
    (1e12, "s"),
    (1e9, "ms"),
    (1e6, "us"),
    (1e3, "ns"),
    (1.0, "ps"),
];

/// The amount in the largest unit that it reaches; whole numbers of the base unit are padded to
/// `padding` characters, as in MySQL.
fn in_units(amount: f64, units: &[Unit], padding: usize) -> String {
    let size = amount.abs();
    let (divisor, name) = units
        .iter()
        .copied()
        .find(|(divisor, _)| size >= *divisor)
        .or(units.last().copied())
        .unwrap_or((1.0, ""));
    let value = amount / divisor;
    if divisor == 1.0 {
        format!("{value:padding$.0} {name}")
    } else if value.abs() >= 100_000.0 {
        let exponent = value.abs().log10().floor() as i32;
        format!("{:.2}e+{exponent:02} {name}", value / 10f64.powi(exponent))
    } else {
        format!("{value:.2} {name}")
    }
}

/// A time in picoseconds with a unit, as FORMAT_PICO_TIME() shows it.
pub fn pico_time(picoseconds: f64) -> String {
    in_units(picoseconds, &TIMES, 3)
}

fn format_units<'a>(c: &Call<'_, 'a>, units: &[Unit], padding: usize) -> Result<ValueRef<'a>> {
    Ok(match c.double(0)? {
        Some(amount) => c.keep(in_units(amount, units, padding).as_bytes()),
        None => ValueRef::Null,
    })
}

/// The registry entries.
pub const FUNCTIONS: &[Function] = &[
    f!("FORMAT_BYTES", (1, 1), |_, c| text_of(20, c), IfArgument, |c| format_units(c, &BYTES, 4), "A number of bytes with a unit.", "FORMAT_BYTES(18446644073709551615)" => "16.00 EiB"),
    f!("FORMAT_PICO_TIME", (1, 1), |_, c| text_of(20, c), IfArgument, |c| format_units(c, &TIMES, 3), "A time in picoseconds with a unit.", "FORMAT_PICO_TIME(188732396662000)" => "3.15 min"),
];
