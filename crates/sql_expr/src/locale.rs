//! Locales: names of months and weekdays, and the format of numbers, for `lc_time_names` and FORMAT().
//!
//! data/locales.tsv, which scripts/locales.py writes, has a line for each locale of MySQL; it is read
//! when a locale is first needed.

use std::sync::LazyLock;

/// A locale.
#[derive(Debug, PartialEq, Eq)]
pub struct Locale {
    /// Name, as `de_DE`.
    pub name: &'static str,
    months: Box<[&'static str]>,
    short_months: Box<[&'static str]>,
    /// From Monday.
    weekdays: Box<[&'static str]>,
    short_weekdays: Box<[&'static str]>,
    /// Decimal point.
    pub point: &'static str,
    /// Separator of groups of digits; empty if there are none.
    pub separator: &'static str,
    /// Sizes of the last group of digits, and of the groups before it; 0 if there is no further group.
    groups: [usize; 2],
}

static LOCALES: LazyLock<Vec<Locale>> = LazyLock::new(|| {
    let lines = include_str!("../data/locales.tsv").lines();
    lines.map(Locale::of_line).collect()
});

impl Locale {
    /// The locale of a line: names and short names of months, names and short names of weekdays, decimal
    /// point, separator, sizes of groups.
    fn of_line(line: &'static str) -> Locale {
        let mut parts = line.split('\t');
        let mut next = || parts.next().unwrap_or_default();
        let name = next();
        let mut list = || next().split('|').collect();
        let (months, short_months) = (list(), list());
        let (weekdays, short_weekdays) = (list(), list());
        let (point, separator) = (next(), next());
        let mut sizes = next().split('|').map(|size| size.parse().unwrap_or(0));
        let mut size = || sizes.next().unwrap_or(0);
        Locale {
            name,
            months,
            short_months,
            weekdays,
            short_weekdays,
            point,
            separator,
            groups: [size(), size()],
        }
    }

    /// The locale of this name, in any case.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Locale> {
        LOCALES.iter().find(|l| l.name.eq_ignore_ascii_case(name))
    }

    /// The locale with MySQL's number.
    #[must_use]
    pub fn numbered(number: usize) -> Option<&'static Locale> {
        LOCALES.get(number)
    }

    /// `en_US`, the first.
    #[must_use]
    pub fn english() -> &'static Locale {
        static NONE: LazyLock<Locale> = LazyLock::new(|| Locale::of_line("en_US"));
        LOCALES.first().unwrap_or(&NONE)
    }

    /// The name of a month from 1 to 12; empty for other numbers.
    #[must_use]
    pub fn month(&self, month: u8) -> &'static str {
        of_month(&self.months, month)
    }

    /// The short name of a month.
    #[must_use]
    pub fn short_month(&self, month: u8) -> &'static str {
        of_month(&self.short_months, month)
    }

    /// The name of a weekday from 0, Monday, to 6.
    #[must_use]
    pub fn weekday(&self, weekday: u8) -> &'static str {
        let name = self.weekdays.get(usize::from(weekday));
        name.copied().unwrap_or_default()
    }

    /// The short name of a weekday.
    #[must_use]
    pub fn short_weekday(&self, weekday: u8) -> &'static str {
        let name = self.short_weekdays.get(usize::from(weekday));
        name.copied().unwrap_or_default()
    }

    /// Whether a separator stands before the digit that is this many digits from the end.
    #[must_use]
    pub fn separates(&self, left: usize) -> bool {
        let [last, other] = self.groups;
        match left.checked_sub(last) {
            Some(0) => last > 0,
            Some(beyond) => last > 0 && other > 0 && beyond % other == 0,
            None => false,
        }
    }
}

fn of_month(names: &[&'static str], month: u8) -> &'static str {
    let at = usize::from(month).checked_sub(1);
    let name = at.and_then(|at| names.get(at));
    name.copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locales_have_all_names() {
        for locale in LOCALES.iter() {
            let counts = [
                locale.months.len(),
                locale.short_months.len(),
                locale.weekdays.len(),
                locale.short_weekdays.len(),
            ];
            assert_eq!(counts, [12, 12, 7, 7], "{}", locale.name);
            assert!(!locale.point.is_empty(), "{}", locale.name);
        }
        assert_eq!(Locale::english().name, "en_US");
        assert_eq!(Locale::named("DE_de").map(|l| l.month(3)), Some("März"));
    }

    #[test]
    fn digits_are_grouped() {
        let separated = |name: &str| {
            let locale = Locale::named(name).unwrap();
            (1..10)
                .filter(|left| locale.separates(*left))
                .collect::<Vec<_>>()
        };
        assert_eq!(separated("en_US"), [3, 6, 9]);
        assert_eq!(separated("fr_FR"), []);
    }
}
