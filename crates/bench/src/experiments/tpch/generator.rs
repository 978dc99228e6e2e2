//! Data of `bench tpch`: each row is a function of its number, so that all
//! systems get the same rows in any order of insertion.
//!
//! Properties on which the queries depend are those of the specification: the number of rows
//! in each table per scale factor, 1 to 7 lines per order, a third of the
//! customers without orders, 4 suppliers per part, dates of 1992 to 1998, and
//! the value sets of types, brands, containers, segments, priorities and modes.

use crate::experiments::load_rows::Rows;
use crate::proto::Call;
use crate::value::mix;

/// Numbers of rows that depend on the scale factor.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    pub(super) lines: u64,
    pub(super) orders: u64,
    pub(super) customers: u64,
    parts: u64,
    suppliers: u64,
}

impl Scale {
    /// The scale at which `lineitem` has about this number of rows (6,000,000 at factor 1).
    pub(super) fn of_lines(lines: u64) -> Scale {
        Scale {
            lines,
            orders: lines.div_ceil(LINES_OF_GROUP) * ORDERS_OF_GROUP,
            customers: (lines / 40).max(30),
            parts: (lines / 30).max(40),
            suppliers: (lines / 600).max(10),
        }
    }
}

/// Seven consecutive orders have 1, 2, ... 7 lines.
const ORDERS_OF_GROUP: u64 = 7;
const LINES_OF_GROUP: u64 = 28;

/// A table: its columns and keys, its number of rows, and its values.
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) columns: &'static str,
    pub(super) rows: fn(&Scale) -> u64,
    width: usize,
    add: fn(&Scale, u64, &mut Call),
}

impl Table {
    /// The rows of this table, for insertion.
    pub(super) fn filler(&'static self, scale: Scale) -> Filler {
        Filler { table: self, scale }
    }
}

/// See [`Table::filler`].
pub(super) struct Filler {
    table: &'static Table,
    scale: Scale,
}

impl Rows for Filler {
    fn statement(&self, rows: usize) -> String {
        let row = format!("({})", vec!["?"; self.table.width].join(", "));
        let values = vec![row; rows].join(", ");
        format!("insert into {} values {values}", self.table.name)
    }

    fn add(&self, n: u64, call: &mut Call) {
        (self.table.add)(&self.scale, n, call);
    }

    fn item(&self, _: u64, _: &mut Call) {}
}

/// All tables, parents first.
pub(super) const TABLES: &[Table] = &[
    Table {
        name: "region",
        columns: "r_regionkey int primary key, r_name char(25) not null, r_comment varchar(152)",
        rows: |_| REGIONS.len() as u64,
        width: 3,
        add: |_, n, call| {
            call.int(int(n));
            text(call, pick(REGIONS, n));
            text(call, &comment(n, 1));
        },
    },
    Table {
        name: "nation",
        columns: "n_nationkey int primary key, n_name char(25) not null, \
                  n_regionkey int not null, n_comment varchar(152), key (n_regionkey)",
        rows: |_| NATIONS.len() as u64,
        width: 4,
        add: |_, n, call| {
            let (name, region) = pick(NATIONS, n);
            call.int(int(n));
            text(call, name);
            call.int(int(region));
            text(call, &comment(n, 2));
        },
    },
    Table {
        name: "supplier",
        columns: "s_suppkey int primary key, s_name char(25) not null, \
                  s_address varchar(40) not null, s_nationkey int not null, \
                  s_phone char(15) not null, s_acctbal decimal(15,2) not null, \
                  s_comment varchar(101) not null, key (s_nationkey)",
        rows: |scale| scale.suppliers,
        width: 7,
        add: |_, n, call| {
            let nation = random(n, 10, 25);
            call.int(int(n + 1));
            text(call, &format!("Supplier#{:09}", n + 1));
            text(call, &format!("{:016x}", mix(n)));
            call.int(int(nation));
            text(call, &phone(nation, n));
            text(call, &balance(n, 11));
            let remark = comment(n, 12);
            match n % 200 {
                7 => text(call, &format!("{remark} Customer slow Complaints")),
                _ => text(call, &remark),
            }
        },
    },
    Table {
        name: "part",
        columns: "p_partkey int primary key, p_name varchar(55) not null, \
                  p_mfgr char(25) not null, p_brand char(10) not null, \
                  p_type varchar(25) not null, p_size int not null, \
                  p_container char(10) not null, p_retailprice decimal(15,2) not null, \
                  p_comment varchar(23) not null",
        rows: |scale| scale.parts,
        width: 9,
        add: |_, n, call| {
            let maker = random(n, 20, 5) + 1;
            let names: Vec<&str> = (0..5).map(|i| choose(COLOURS, n, 30 + i)).collect();
            call.int(int(n + 1));
            text(call, &names.join(" "));
            text(call, &format!("Manufacturer#{maker}"));
            text(call, &format!("Brand#{maker}{}", random(n, 21, 5) + 1));
            let [first, second, third] = TYPES;
            let kind = format!(
                "{} {} {}",
                choose(first, n, 22),
                choose(second, n, 23),
                choose(third, n, 24)
            );
            text(call, &kind);
            call.int(int(random(n, 25, 50) + 1));
            let [size, form] = CONTAINERS;
            text(
                call,
                &format!("{} {}", choose(size, n, 26), choose(form, n, 27)),
            );
            text(call, &money(price(n + 1)));
            text(call, choose(WORDS, n, 28));
        },
    },
    Table {
        name: "partsupp",
        columns: "ps_partkey int not null, ps_suppkey int not null, \
                  ps_availqty int not null, ps_supplycost decimal(15,2) not null, \
                  ps_comment varchar(199) not null, primary key (ps_partkey, ps_suppkey), \
                  key (ps_suppkey)",
        rows: |scale| scale.parts * SUPPLIERS_OF_PART,
        width: 5,
        add: |scale, n, call| {
            let part = n / SUPPLIERS_OF_PART + 1;
            call.int(int(part));
            call.int(int(supplier(scale, part, n % SUPPLIERS_OF_PART)));
            call.int(int(random(n, 40, 9999) + 1));
            text(call, &money(random(n, 41, 99_901) + 100));
            text(call, &comment(n, 42));
        },
    },
    Table {
        name: "customer",
        columns: "c_custkey int primary key, c_name varchar(25) not null, \
                  c_address varchar(40) not null, c_nationkey int not null, \
                  c_phone char(15) not null, c_acctbal decimal(15,2) not null, \
                  c_mktsegment char(10) not null, c_comment varchar(117) not null, \
                  key (c_nationkey)",
        rows: |scale| scale.customers,
        width: 8,
        add: |_, n, call| {
            let nation = random(n, 50, 25);
            call.int(int(n + 1));
            text(call, &format!("Customer#{:09}", n + 1));
            text(call, &format!("{:020x}", mix(n + 5)));
            call.int(int(nation));
            text(call, &phone(nation, n + 9));
            text(call, &balance(n, 51));
            text(call, choose(SEGMENTS, n, 52));
            text(call, &comment(n, 53));
        },
    },
    Table {
        name: "orders",
        columns: "o_orderkey int primary key, o_custkey int not null, \
                  o_orderstatus char(1) not null, o_totalprice decimal(15,2) not null, \
                  o_orderdate date not null, o_orderpriority char(15) not null, \
                  o_clerk char(15) not null, o_shippriority int not null, \
                  o_comment varchar(79) not null, key (o_custkey), key (o_orderdate)",
        rows: |scale| scale.orders,
        width: 9,
        add: |scale, n, call| {
            let day = order_day(n);
            let status = match day {
                0..1142 => "F",
                1142..1263 => "P",
                _ => "O",
            };
            call.int(int(n + 1));
            call.int(int(customer(scale, n)));
            text(call, status);
            text(call, &money(random(n, 60, 45_000_000) + 90_000));
            text(call, &date(day));
            text(call, choose(PRIORITIES, n, 61));
            text(call, &format!("Clerk#{:09}", random(n, 62, 1000) + 1));
            call.int(0);
            let remark = comment(n, 63);
            match n % 80 {
                11 => text(call, &format!("{remark} special final requests")),
                _ => text(call, &remark),
            }
        },
    },
    Table {
        name: "lineitem",
        columns: "l_orderkey int not null, l_partkey int not null, l_suppkey int not null, \
                  l_linenumber int not null, l_quantity decimal(15,2) not null, \
                  l_extendedprice decimal(15,2) not null, l_discount decimal(15,2) not null, \
                  l_tax decimal(15,2) not null, l_returnflag char(1) not null, \
                  l_linestatus char(1) not null, l_shipdate date not null, \
                  l_commitdate date not null, l_receiptdate date not null, \
                  l_shipinstruct char(25) not null, l_shipmode char(10) not null, \
                  l_comment varchar(44) not null, primary key (l_orderkey, l_linenumber), \
                  key (l_partkey, l_suppkey), key (l_suppkey), key (l_shipdate)",
        rows: |scale| scale.lines,
        width: 16,
        add: add_line,
    },
];

fn add_line(scale: &Scale, n: u64, call: &mut Call) {
    let (order, line) = line_of(n);
    let part = random(n, 70, scale.parts) + 1;
    let quantity = random(n, 71, 50) + 1;
    let shipped = order_day(order) + random(n, 72, 121) + 1;
    let received = shipped + random(n, 73, 30) + 1;
    call.int(int(order + 1));
    call.int(int(part));
    call.int(int(supplier(scale, part, random(n, 74, SUPPLIERS_OF_PART))));
    call.int(int(line + 1));
    text(call, &money(quantity * 100));
    text(call, &money(quantity * price(part)));
    text(call, &money(random(n, 75, 11)));
    text(call, &money(random(n, 76, 9)));
    let flag = match (received <= CURRENT_DAY, mix(n) % 2) {
        (true, 0) => "R",
        (true, _) => "A",
        (false, _) => "N",
    };
    text(call, flag);
    text(call, if shipped > CURRENT_DAY { "O" } else { "F" });
    text(call, &date(shipped));
    text(call, &date(order_day(order) + 30 + random(n, 77, 61)));
    text(call, &date(received));
    text(call, choose(INSTRUCTIONS, n, 78));
    text(call, choose(MODES, n, 79));
    text(call, choose(WORDS, n, 80));
}

const SUPPLIERS_OF_PART: u64 = 4;

/// Days of orders: 1992-01-01 to 1998-08-02.
const ORDER_DAYS: u64 = 2406;

/// 1995-06-17, in days since 1992-01-01.
const CURRENT_DAY: u64 = 1263;

fn order_day(order: u64) -> u64 {
    random(order, 64, ORDER_DAYS)
}

/// The order and the position in it of the n-th line; see [`ORDERS_OF_GROUP`].
fn line_of(n: u64) -> (u64, u64) {
    let (group, mut line) = (n / LINES_OF_GROUP, n % LINES_OF_GROUP);
    let mut order = 0;
    while line > order {
        line -= order + 1;
        order += 1;
    }
    (group * ORDERS_OF_GROUP + order, line)
}

/// Customers whose number is divisible by three have no orders.
fn customer(scale: &Scale, order: u64) -> u64 {
    let n = random(order, 65, scale.customers - 2) + 1;
    if n.is_multiple_of(3) { n + 1 } else { n }
}

/// The i-th supplier of a part (clause 4.2.3 of the specification).
fn supplier(scale: &Scale, part: u64, i: u64) -> u64 {
    let all = scale.suppliers;
    (part + i * (all / SUPPLIERS_OF_PART + (part - 1) / all)) % all + 1
}

/// Retail price of a part in cents (clause 4.2.3).
fn price(part: u64) -> u64 {
    90_000 + (part / 10) % 20_001 + 100 * (part % 1000)
}

fn random(n: u64, salt: u64, among: u64) -> u64 {
    mix(n ^ mix(salt)) % among.max(1)
}

fn int(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn text(call: &mut Call, value: &str) {
    call.bytes(value.as_bytes());
}

/// The n-th value of a list, cyclically.
#[expect(clippy::indexing_slicing, reason = "the index is below the length")]
fn pick<T: Copy>(all: &[T], n: u64) -> T {
    all[(n % all.len() as u64) as usize]
}

fn choose<T: Copy>(all: &[T], n: u64, salt: u64) -> T {
    pick(all, random(n, salt, all.len() as u64))
}

fn money(cents: u64) -> String {
    format!("{}.{:02}", cents / 100, cents % 100)
}

/// An account balance from -999.99 to 9999.99.
fn balance(n: u64, salt: u64) -> String {
    let cents = random(n, salt, 1_099_999);
    match cents.checked_sub(99_999) {
        Some(positive) => money(positive),
        None => format!("-{}", money(99_999 - cents)),
    }
}

fn phone(nation: u64, n: u64) -> String {
    format!(
        "{}-{:03}-{:03}-{:04}",
        nation + 10,
        random(n, 90, 900) + 100,
        random(n, 91, 900) + 100,
        random(n, 92, 9000) + 1000
    )
}

fn comment(n: u64, salt: u64) -> String {
    let words: Vec<&str> = (0..5).map(|i| choose(WORDS, n, salt * 100 + i)).collect();
    words.join(" ")
}

/// The date a number of days after 1992-01-01.
fn date(mut day: u64) -> String {
    let mut year = 1992u64;
    loop {
        let length = if year.is_multiple_of(4) { 366 } else { 365 };
        if day < length {
            break;
        }
        day -= length;
        year += 1;
    }
    let february = if year.is_multiple_of(4) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", day + 1)
}

const REGIONS: &[&str] = &["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"];

/// Name and region of each nation.
const NATIONS: &[(&str, u64)] = &[
    ("ALGERIA", 0),
    ("ARGENTINA", 1),
    ("BRAZIL", 1),
    ("CANADA", 1),
    ("EGYPT", 4),
    ("ETHIOPIA", 0),
    ("FRANCE", 3),
    ("GERMANY", 3),
    ("INDIA", 2),
    ("INDONESIA", 2),
    ("IRAN", 4),
    ("IRAQ", 4),
    ("JAPAN", 2),
    ("JORDAN", 4),
    ("KENYA", 0),
    ("MOROCCO", 0),
    ("MOZAMBIQUE", 0),
    ("PERU", 1),
    ("CHINA", 2),
    ("ROMANIA", 3),
    ("SAUDI ARABIA", 4),
    ("VIETNAM", 2),
    ("RUSSIA", 3),
    ("UNITED KINGDOM", 3),
    ("UNITED STATES", 1),
];

const SEGMENTS: &[&str] = &[
    "AUTOMOBILE",
    "BUILDING",
    "FURNITURE",
    "HOUSEHOLD",
    "MACHINERY",
];
const PRIORITIES: &[&str] = &["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"];
const MODES: &[&str] = &["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"];
const INSTRUCTIONS: &[&str] = &[
    "COLLECT COD",
    "DELIVER IN PERSON",
    "NONE",
    "TAKE BACK RETURN",
];
const TYPES: [&[&str]; 3] = [
    &["ECONOMY", "LARGE", "MEDIUM", "PROMO", "SMALL", "STANDARD"],
    &["ANODIZED", "BRUSHED", "BURNISHED", "PLATED", "POLISHED"],
    &["BRASS", "COPPER", "NICKEL", "STEEL", "TIN"],
];
const CONTAINERS: [&[&str]; 2] = [
    &["JUMBO", "LG", "MED", "SM", "WRAP"],
    &["BAG", "BOX", "CAN", "CASE", "DRUM", "JAR", "PACK", "PKG"],
];
const COLOURS: &[&str] = &[
    "almond", "azure", "beige", "black", "blue", "brown", "coral", "cream", "cyan", "dark", "dim",
    "forest", "gold", "green", "grey", "indigo", "ivory", "khaki", "lemon", "lime", "linen",
    "magenta", "maroon", "mint", "navy", "olive", "orange", "peach", "pink", "plum", "purple",
    "red", "rose", "salmon", "sienna", "silver", "snow", "tan", "tomato", "violet", "white",
    "yellow",
];
const WORDS: &[&str] = &[
    "accounts",
    "asymptotes",
    "boldly",
    "carefully",
    "courts",
    "deposits",
    "even",
    "express",
    "final",
    "foxes",
    "furiously",
    "ideas",
    "ironic",
    "packages",
    "pending",
    "platelets",
    "quickly",
    "quietly",
    "regular",
    "requests",
    "silent",
    "slyly",
    "special",
    "theodolites",
    "unusual",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        assert_eq!(date(0), "1992-01-01");
        assert_eq!(date(59), "1992-02-29");
        assert_eq!(date(366), "1993-01-01");
        assert_eq!(date(CURRENT_DAY), "1995-06-17");
        assert_eq!(date(ORDER_DAYS - 1), "1998-08-02");
    }

    #[test]
    fn lines_fill_their_orders() {
        let lines: Vec<(u64, u64)> = (0..LINES_OF_GROUP + 2).map(line_of).collect();
        let begin = [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (3, 0)];
        assert!(lines.starts_with(&begin));
        assert!(lines.ends_with(&[(6, 6), (7, 0), (8, 0)]));
    }

    #[test]
    fn suppliers_of_a_part_differ() {
        let scale = Scale::of_lines(60_000);
        for part in [1, 99, 100, 101, 2000] {
            let mut all: Vec<u64> = (0..4).map(|i| supplier(&scale, part, i)).collect();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), 4, "{part}");
        }
    }

    #[test]
    fn every_table_has_a_value_for_each_column() {
        let scale = Scale::of_lines(1000);
        for table in TABLES {
            let mut call = Call::default();
            for n in 0..50 {
                call.begin(crate::proto::Verb::Statement(0));
                (table.add)(&scale, n, &mut call);
                assert_eq!(call.args().len(), table.width, "{}", table.name);
            }
        }
    }
}
