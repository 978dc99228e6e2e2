//! Dates of day numbers in the proleptic Gregorian calendar (Howard Hinnant, "chrono-Compatible Low-Level Date
//! Algorithms", `civil_from_days`).
//!
//! Years are counted from March, in eras of 400 years, so that the leap day is the last of its year.

/// Days of 400 years.
const DAYS_OF_ERA: i64 = 146_097;

/// Days from 0000-03-01 to 1970-01-01.
const UNIX_EPOCH: i64 = 719_468;

/// Returns year, month and day of the date that lies this number of days after 1970-01-01.
#[inline]
pub fn civil_from_days(days: i64) -> (i64, u8, u8) {
    let days = days + UNIX_EPOCH;
    let (era, day_of_era) = (days.div_euclid(DAYS_OF_ERA), days.rem_euclid(DAYS_OF_ERA));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month as u8, day as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_follow_the_leap_years() {
        for (days, date) in [
            (0, (1970, 1, 1)),
            (-1, (1969, 12, 31)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
            (-719_468, (0, 3, 1)),
            (2_932_896, (9999, 12, 31)),
        ] {
            assert_eq!(civil_from_days(days), date, "{days}");
        }
    }
}
