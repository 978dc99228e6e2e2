//! The queries of `bench analytics`.

use crate::experiments::query_suite::{Question, ordered, unordered};

/// The queries, in the order in which they run.
pub(super) const QUESTIONS: &[Question] = &[
    ordered("count all", "select count(*) from sale"),
    ordered(
        "count where",
        "select count(*) from sale where quantity % 7 = 3",
    ),
    ordered(
        "count range",
        "select count(*) from sale where shop between 100 and 299",
    ),
    ordered(
        "sum all",
        "select sum(quantity), sum(amount), avg(amount), min(amount), max(label) from sale",
    ),
    unordered(
        "group 20",
        "select kind, count(*), sum(quantity) from sale group by kind",
    ),
    unordered(
        "group text",
        "select city, count(*), sum(amount), max(quantity) from sale group by city",
    ),
    unordered(
        "group two",
        "select kind, city, count(*), sum(quantity) from sale group by kind, city",
    ),
    unordered(
        "group indexed",
        "select shop, count(*) from sale group by shop",
    ),
    ordered(
        "group many",
        "select customer, sum(amount) s, count(*) from sale group by customer \
         order by s desc, customer limit 10",
    ),
    unordered(
        "group code",
        "select code, count(*), sum(quantity) from sale group by code",
    ),
    ordered(
        "count distinct",
        "select count(distinct customer), count(distinct city) from sale",
    ),
    unordered("distinct", "select distinct kind, shop from sale"),
    unordered(
        "join by key",
        "select c.region, count(*), sum(s.quantity) from sale s join customer c \
         on c.id = s.customer group by c.region",
    ),
    unordered(
        "join hashed",
        "select c.region, count(*), sum(s.quantity) from sale s join customer c \
         on c.code = s.code group by c.region",
    ),
    unordered(
        "join indexed",
        "select c.region, count(*), sum(s.quantity) from customer c join sale s \
         on s.customer = c.id where c.region < 5 group by c.region",
    ),
    ordered(
        "left join",
        "select count(*), count(c.id) from sale s left join customer c \
         on c.id = s.customer and c.region = 7",
    ),
    ordered(
        "semi join",
        "select count(*) from customer c where exists \
         (select 1 from sale s where s.customer = c.id and s.quantity > 95)",
    ),
    ordered(
        "in subquery",
        "select sum(quantity) from sale where customer in \
         (select id from customer where region = 3)",
    ),
    ordered(
        "sort top",
        "select id, amount from sale order by amount desc, id limit 10",
    ),
    ordered(
        "sort deep",
        "select id, city from sale order by city, amount, id limit 500000, 10",
    ),
    ordered(
        "sort all",
        "select id, amount from sale order by amount, id",
    ),
    ordered(
        "sort text",
        "select id, city, label from sale order by city desc, label",
    ),
    ordered(
        "order by index",
        "select id, label from sale order by label limit 100000, 10",
    ),
    ordered(
        "minimum by index",
        "select min(label), max(label), min(shop), max(shop) from sale",
    ),
    ordered(
        "prefix",
        "select count(*), min(id) from sale where label like '00a%'",
    ),
    ordered(
        "scan filter",
        "select id, label from sale where city = 'City 123' and quantity < 10 order by id",
    ),
    ordered(
        "rank of groups",
        "select count(*), max(r) from (select rank() over (partition by shop order by amount desc) r \
         from sale) x",
    ),
    ordered(
        "running sum",
        "select max(s), sum(n) from (select sum(amount) over (partition by customer order by id) s, \
         row_number() over (partition by customer order by id) n from sale) x",
    ),
    ordered(
        "moving average",
        "select count(*), max(m) from (select avg(quantity) over (order by id rows between 9 preceding \
         and current row) m from sale) x",
    ),
    ordered(
        "difference to the row before",
        "select count(*) from (select quantity - lag(quantity) over (partition by shop order by day, id) d \
         from sale) x where d > 0",
    ),
    unordered(
        "month",
        "select date_format(day, '%Y-%m') m, sum(amount) from sale group by m",
    ),
    ordered(
        "share of a group",
        "select count(*), sum(p) from (select amount * 100 div sum(amount) over (partition by kind) p \
         from sale) x",
    ),
    ordered(
        "range of values",
        "select count(*), sum(n) from (select count(*) over (partition by shop order by quantity range \
         between 5 preceding and current row) n from sale) x",
    ),
    ordered(
        "first and last of a group",
        "select count(*), sum(a), sum(b) from (select first_value(quantity) over w a, last_value(quantity) \
         over w b from sale window w as (partition by shop order by day, id rows between unbounded \
         preceding and unbounded following)) x",
    ),
    unordered(
        "json value",
        "select json_value(body, '$.kind') k, count(*) from document group by k",
    ),
    ordered(
        "json filter",
        "select count(*), sum(id) from document where json_unquote(json_extract(body, '$.name')) = 'name 17'",
    ),
    unordered(
        "json table",
        "select t.sku, count(*), sum(t.quantity) from document, json_table(body, '$.items[*]' \
         columns (sku varchar(20) path '$.sku', quantity int path '$.quantity')) t \
         where t.quantity > 5 group by t.sku",
    ),
    ordered(
        "member of",
        "select count(*), sum(id) from document where 17 member of (tags)",
    )
    .or("select count(*), sum(id) from document where json_contains(tags, '17')"),
    ordered(
        "spilled sort",
        "select id, city, label from sale order by city desc, label",
    )
    .spilled(),
    unordered(
        "spilled distinct",
        "select distinct label, amount from sale",
    )
    .spilled(),
    unordered(
        "spilled groups",
        "select label, count(*), sum(amount), max(quantity) from sale group by label, id",
    )
    .spilled(),
    ordered(
        "spilled join",
        "select count(*), sum(a.quantity), sum(b.amount) from sale a join sale b \
         on b.amount = a.amount and b.day = a.day",
    )
    .spilled(),
    ordered(
        "spilled window",
        "select count(*), max(r) from (select row_number() over (partition by city order by label) r \
         from sale) x",
    )
    .spilled(),
];
