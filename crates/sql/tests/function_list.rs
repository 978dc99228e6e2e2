//! The function and operator lists of MySQL's manual ("Built-In Function and Operator Reference") as
//! a checklist: every entry is in the registry, has an example here that is executed, or is refused
//! with a number that `docs/compat.md` names.

use porpoise_sql::{ResultColumn, ResultSink, SqlError};
use porpoise_sql_expr::functions;
use porpoise_types::ValueRef;

/// The names of the manual's list that are called like functions, without the spatial ones.
const FUNCTIONS: &str = "ABS ACOS ADDDATE ADDTIME AES_DECRYPT AES_ENCRYPT ANY_VALUE ASCII ASIN ATAN ATAN2 AVG
BENCHMARK BIN BIN_TO_UUID BIT_AND BIT_COUNT BIT_LENGTH BIT_OR BIT_XOR CAST CEIL CEILING CHAR CHAR_LENGTH
CHARACTER_LENGTH CHARSET COALESCE COERCIBILITY COLLATION COMPRESS CONCAT CONCAT_WS CONNECTION_ID CONV CONVERT
CONVERT_TZ COS COT COUNT CRC32 CUME_DIST CURDATE CURRENT_DATE CURRENT_ROLE CURRENT_TIME CURRENT_TIMESTAMP
CURRENT_USER CURTIME DATABASE DATE DATE_ADD DATE_FORMAT DATE_SUB DATEDIFF DAY DAYNAME DAYOFMONTH DAYOFWEEK
DAYOFYEAR DEFAULT DEGREES DENSE_RANK ELT EXP EXPORT_SET EXTRACT EXTRACTVALUE FIELD FIND_IN_SET FIRST_VALUE
FLOOR FORMAT FORMAT_BYTES FORMAT_PICO_TIME FOUND_ROWS FROM_BASE64 FROM_DAYS FROM_UNIXTIME GET_FORMAT GET_LOCK
GREATEST GROUP_CONCAT GROUPING GTID_SUBSET GTID_SUBTRACT HEX HOUR ICU_VERSION IF IFNULL INET_ATON INET_NTOA
INET6_ATON INET6_NTOA INSERT INSTR INTERVAL IS_FREE_LOCK IS_IPV4 IS_IPV4_COMPAT IS_IPV4_MAPPED IS_IPV6
IS_USED_LOCK IS_UUID ISNULL JSON_ARRAY JSON_ARRAY_APPEND JSON_ARRAY_INSERT JSON_ARRAYAGG JSON_CONTAINS
JSON_CONTAINS_PATH JSON_DEPTH JSON_EXTRACT JSON_INSERT JSON_KEYS JSON_LENGTH JSON_MERGE JSON_MERGE_PATCH
JSON_MERGE_PRESERVE JSON_OBJECT JSON_OBJECTAGG JSON_OVERLAPS JSON_PRETTY JSON_QUOTE JSON_REMOVE JSON_REPLACE
JSON_SCHEMA_VALID JSON_SCHEMA_VALIDATION_REPORT JSON_SEARCH JSON_SET JSON_STORAGE_FREE JSON_STORAGE_SIZE
JSON_TABLE JSON_TYPE JSON_UNQUOTE JSON_VALID JSON_VALUE LAG LAST_DAY LAST_INSERT_ID LAST_VALUE LCASE LEAD
LEAST LEFT LENGTH LN LOAD_FILE LOCALTIME LOCALTIMESTAMP LOCATE LOG LOG10 LOG2 LOWER LPAD LTRIM MAKE_SET
MAKEDATE MAKETIME MASTER_POS_WAIT MAX MD5 MICROSECOND MID MIN MINUTE MOD MONTH MONTHNAME NAME_CONST NOW
NTH_VALUE NTILE NULLIF OCT OCTET_LENGTH ORD PERCENT_RANK PERIOD_ADD PERIOD_DIFF PI POSITION POW POWER
PS_CURRENT_THREAD_ID PS_THREAD_ID QUARTER QUOTE RADIANS RAND RANDOM_BYTES RANK REGEXP_INSTR REGEXP_LIKE
REGEXP_REPLACE REGEXP_SUBSTR RELEASE_ALL_LOCKS RELEASE_LOCK REPEAT REPLACE REVERSE RIGHT ROLES_GRAPHML ROUND
ROW_COUNT ROW_NUMBER RPAD RTRIM SCHEMA SEC_TO_TIME SECOND SESSION_USER SHA SHA1 SHA2 SIGN SIN SLEEP SOUNDEX
SOURCE_POS_WAIT SPACE SQRT STATEMENT_DIGEST STATEMENT_DIGEST_TEXT STD STDDEV STDDEV_POP STDDEV_SAMP
STR_TO_DATE STRCMP SUBDATE SUBSTR SUBSTRING SUBSTRING_INDEX SUBTIME SUM SYSDATE SYSTEM_USER TAN TIME
TIME_FORMAT TIME_TO_SEC TIMEDIFF TIMESTAMP TIMESTAMPADD TIMESTAMPDIFF TO_BASE64 TO_DAYS TO_SECONDS TRIM
TRUNCATE UCASE UNCOMPRESS UNCOMPRESSED_LENGTH UNHEX UNIX_TIMESTAMP UPDATEXML UPPER USER UTC_DATE UTC_TIME
UTC_TIMESTAMP UUID UUID_SHORT UUID_TO_BIN VALIDATE_PASSWORD_STRENGTH VALUES VAR_POP VAR_SAMP VARIANCE
VERSION WAIT_FOR_EXECUTED_GTID_SET WEEK WEEKDAY WEEKOFYEAR WEIGHT_STRING YEAR YEARWEEK";

/// Functions that are not entries of the registry, because they have a syntax, lazy arguments or a place
/// of their own, and operators: name, example and its value.
const OWN_SYNTAX: &[(&str, &str, &str)] = &[
    ("ADDDATE", "ADDDATE('2024-01-31', 1)", "2024-02-01"),
    ("AVG", "(SELECT AVG(a) FROM n)", "2.0000"),
    ("BENCHMARK", "BENCHMARK(2, 1)", "0"),
    ("BIT_AND", "(SELECT BIT_AND(a) FROM n)", "0"),
    ("BIT_OR", "(SELECT BIT_OR(a) FROM n)", "3"),
    ("BIT_XOR", "(SELECT BIT_XOR(a) FROM n)", "0"),
    ("CAST", "CAST('7' AS UNSIGNED)", "7"),
    ("COALESCE", "COALESCE(NULL, 2)", "2"),
    ("CONVERT", "CONVERT('a' USING latin1)", "a"),
    ("COUNT", "(SELECT COUNT(*) + COUNT(DISTINCT a) FROM n)", "6"),
    (
        "CUME_DIST",
        "(SELECT CUME_DIST() OVER (ORDER BY a) FROM n LIMIT 1) > 0.3",
        "1",
    ),
    ("CURRENT_DATE", "CURRENT_DATE() = CURDATE()", "1"),
    (
        "DATE_ADD",
        "DATE_ADD('2024-01-31', INTERVAL 1 MONTH)",
        "2024-02-29",
    ),
    (
        "DATE_SUB",
        "DATE_SUB('2024-03-01', INTERVAL 1 DAY)",
        "2024-02-29",
    ),
    ("DEFAULT", "(SELECT DEFAULT(b) FROM n LIMIT 1)", "5"),
    (
        "DENSE_RANK",
        "(SELECT DENSE_RANK() OVER (ORDER BY a) FROM n LIMIT 1)",
        "1",
    ),
    ("EXTRACT", "EXTRACT(YEAR_MONTH FROM '2024-03-01')", "202403"),
    (
        "FIRST_VALUE",
        "(SELECT FIRST_VALUE(a) OVER (ORDER BY a) FROM n LIMIT 1)",
        "1",
    ),
    ("GET_FORMAT", "GET_FORMAT(DATE, 'EUR')", "%d.%m.%Y"),
    (
        "GROUP_CONCAT",
        "(SELECT GROUP_CONCAT(a ORDER BY a DESC SEPARATOR '-') FROM n)",
        "3-2-1",
    ),
    (
        "GROUPING",
        "(SELECT GROUPING(a) FROM n GROUP BY a WITH ROLLUP ORDER BY 1 DESC LIMIT 1)",
        "1",
    ),
    ("IF", "IF(1 > 2, 'a', 'b')", "b"),
    ("IFNULL", "IFNULL(NULL, 'x')", "x"),
    ("INTERVAL", "INTERVAL(23, 1, 15, 17, 30)", "3"),
    ("ISNULL", "ISNULL(1 / 0)", "1"),
    (
        "JSON_ARRAYAGG",
        "(SELECT JSON_LENGTH(JSON_ARRAYAGG(a)) FROM n)",
        "3",
    ),
    (
        "JSON_OBJECTAGG",
        "(SELECT JSON_OBJECTAGG(a, b) FROM n WHERE a = 1)",
        "{\"1\": 5}",
    ),
    (
        "JSON_TABLE",
        "(SELECT x FROM JSON_TABLE('[4]', '$[*]' COLUMNS (x INT PATH '$')) AS j)",
        "4",
    ),
    (
        "JSON_VALUE",
        "JSON_VALUE('{\"a\": 2}', '$.a' RETURNING UNSIGNED)",
        "2",
    ),
    (
        "LAG",
        "(SELECT LAG(a, 1, 9) OVER (ORDER BY a) FROM n LIMIT 1)",
        "9",
    ),
    (
        "LAST_VALUE",
        "(SELECT LAST_VALUE(a) OVER () FROM n WHERE a = 2)",
        "2",
    ),
    (
        "LEAD",
        "(SELECT LEAD(a) OVER (ORDER BY a) FROM n LIMIT 1)",
        "2",
    ),
    ("MAX", "(SELECT MAX(a) FROM n)", "3"),
    ("MIN", "(SELECT MIN(a) FROM n)", "1"),
    ("MOD", "MOD(7, 4)", "3"),
    (
        "NTH_VALUE",
        "(SELECT NTH_VALUE(a, 1) OVER (ORDER BY a) FROM n LIMIT 1)",
        "1",
    ),
    (
        "NTILE",
        "(SELECT NTILE(2) OVER (ORDER BY a) FROM n LIMIT 1)",
        "1",
    ),
    ("NULLIF", "NULLIF(1, 2)", "1"),
    (
        "PERCENT_RANK",
        "(SELECT PERCENT_RANK() OVER (ORDER BY a) FROM n LIMIT 1)",
        "0",
    ),
    ("POSITION", "POSITION('b' IN 'abc')", "2"),
    (
        "RANK",
        "(SELECT RANK() OVER (ORDER BY a) FROM n LIMIT 1)",
        "1",
    ),
    (
        "ROW_NUMBER",
        "(SELECT ROW_NUMBER() OVER (ORDER BY a) FROM n LIMIT 1)",
        "1",
    ),
    ("STD", "(SELECT STD(a) FROM n WHERE a = 1)", "0"),
    ("STDDEV", "(SELECT STDDEV(a) FROM n WHERE a = 1)", "0"),
    (
        "STDDEV_POP",
        "(SELECT STDDEV_POP(a) FROM n WHERE a = 1)",
        "0",
    ),
    ("STDDEV_SAMP", "(SELECT STDDEV_SAMP(a) FROM n)", "1"),
    ("SUBDATE", "SUBDATE('2024-03-01', 1)", "2024-02-29"),
    ("SUM", "(SELECT SUM(a) FROM n)", "6"),
    (
        "TIMESTAMPADD",
        "TIMESTAMPADD(MINUTE, 1, '2024-01-01 00:00:00')",
        "2024-01-01 00:01:00",
    ),
    (
        "TIMESTAMPDIFF",
        "TIMESTAMPDIFF(DAY, '2024-02-01', '2024-03-01')",
        "29",
    ),
    ("TRIM", "TRIM(BOTH 'x' FROM 'xax')", "a"),
    ("VAR_POP", "(SELECT VAR_POP(a) FROM n WHERE a = 1)", "0"),
    ("VAR_SAMP", "(SELECT VAR_SAMP(a) FROM n)", "1"),
    ("VARIANCE", "(SELECT VARIANCE(a) FROM n WHERE a = 1)", "0"),
    (
        "WEIGHT_STRING",
        "HEX(WEIGHT_STRING(CAST('a' AS BINARY)))",
        "61",
    ),
    // Operators.
    ("&", "6 & 3", "2"),
    (">", "2 > 1", "1"),
    (">>", "8 >> 2", "2"),
    (">=", "2 >= 2", "1"),
    ("<", "1 < 2", "1"),
    ("<>", "1 <> 1", "0"),
    ("!=", "1 != 2", "1"),
    ("<<", "1 << 3", "8"),
    ("<=", "2 <= 1", "0"),
    ("<=>", "NULL <=> NULL", "1"),
    ("%", "7 % 4", "3"),
    ("*", "3 * 4", "12"),
    ("+", "3 + 4", "7"),
    ("-", "3 - 4", "-1"),
    ("- (change of sign)", "-(3)", "-3"),
    ("->", "(SELECT j->'$.a' FROM n LIMIT 1)", "\"x\""),
    ("->>", "(SELECT j->>'$.a' FROM n LIMIT 1)", "x"),
    ("/", "3 / 4", "0.7500"),
    (":=", "@v := 4", "4"),
    ("^", "6 ^ 3", "5"),
    ("AND", "1 AND 0", "0"),
    ("&&", "1 && 1", "1"),
    ("BETWEEN", "2 BETWEEN 1 AND 3", "1"),
    ("NOT BETWEEN", "2 NOT BETWEEN 1 AND 3", "0"),
    ("BINARY", "BINARY 'a' = 'A'", "0"),
    ("CASE", "CASE 2 WHEN 1 THEN 'a' ELSE 'b' END", "b"),
    ("DIV", "7 DIV 2", "3"),
    ("EXISTS", "EXISTS (SELECT 1)", "1"),
    ("NOT EXISTS", "NOT EXISTS (SELECT 1)", "0"),
    ("IN", "2 IN (1, 2)", "1"),
    ("NOT IN", "2 NOT IN (1, 2)", "0"),
    ("IS", "0 IS FALSE", "1"),
    ("IS NOT", "1 IS NOT UNKNOWN", "1"),
    ("IS NULL", "1 IS NULL", "0"),
    ("IS NOT NULL", "1 IS NOT NULL", "1"),
    ("LIKE", "'abc' LIKE 'a%'", "1"),
    ("NOT LIKE", "'abc' NOT LIKE 'a%'", "0"),
    ("MEMBER OF", "17 MEMBER OF ('[23, 17]')", "1"),
    ("MOD", "7 MOD 4", "3"),
    ("NOT", "NOT 10", "0"),
    ("!", "!0", "1"),
    ("||", "1 || 0", "1"),
    ("OR", "0 OR 1", "1"),
    ("REGEXP", "'abc' REGEXP 'b'", "1"),
    ("NOT REGEXP", "'abc' NOT REGEXP 'b'", "0"),
    ("RLIKE", "'abc' RLIKE '^a'", "1"),
    ("SOUNDS LIKE", "'a' SOUNDS LIKE 'a'", "1"),
    ("XOR", "1 XOR 1", "0"),
    ("|", "4 | 3", "7"),
    ("~", "~0 = 18446744073709551615", "1"),
];

/// Refused functions: name, call and number of the error.
const REFUSED: &[(&str, &str, u16)] = &[
    // Only in ON DUPLICATE KEY UPDATE.
    ("VALUES", "VALUES(a)", 1054),
    // Spatial functions: one stands for all.
    ("ST_GeomFromText", "ST_GeomFromText('POINT(1 1)')", 1305),
    // Answers of MySQL itself without GTIDs and Performance Schema.
    ("PS_CURRENT_THREAD_ID", "PS_CURRENT_THREAD_ID()", 1683),
    ("PS_THREAD_ID", "PS_THREAD_ID(1)", 1683),
    (
        "WAIT_FOR_EXECUTED_GTID_SET",
        "WAIT_FOR_EXECUTED_GTID_SET('')",
        3111,
    ),
];

#[derive(Default)]
struct First {
    columns: Vec<ResultColumn>,
    text: Option<String>,
}

impl ResultSink for First {
    fn columns(&mut self, columns: &[ResultColumn]) -> Result<(), SqlError> {
        self.columns = columns.to_vec();
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        let mut text = Vec::new();
        porpoise_types::write_text(values[0], &self.columns[0].ty, &mut text);
        self.text = Some(String::from_utf8(text).unwrap());
        Ok(())
    }
}

/// The text of an expression's value.
fn value_of(
    session: &mut porpoise_sql::session::SqlSession,
    expression: &str,
) -> Result<String, SqlError> {
    let mut first = First::default();
    let text = format!("SELECT {expression}");
    session.query(text.as_bytes(), false, &mut first)?;
    Ok(first.text.unwrap_or_default())
}

#[test]
fn every_entry_of_the_manuals_list_works_or_is_refused() {
    let mut session = crate::common::session();
    for statement in [
        "CREATE DATABASE listed",
        "USE listed",
        "CREATE TABLE n (a INT, b INT DEFAULT 5, j JSON)",
        "INSERT INTO n (a, j) VALUES (1, '{\"a\": \"x\"}'), (2, '{\"a\": \"x\"}'), (3, '{\"a\": \"x\"}')",
    ] {
        session
            .query(statement.as_bytes(), false, &mut First::default())
            .unwrap();
    }
    let mut wrong = Vec::new();
    for (name, call, number) in REFUSED {
        match value_of(&mut session, call) {
            Err(error) if error.code == *number => {}
            other => wrong.push(format!("{name}: {call} gives {other:?}, not {number}")),
        }
    }
    for (name, example, expected) in OWN_SYNTAX {
        match value_of(&mut session, example) {
            Ok(value) if value == *expected => {}
            other => wrong.push(format!("{name}: {example} gives {other:?}, not {expected}")),
        }
    }
    for name in FUNCTIONS.split_whitespace() {
        let own = OWN_SYNTAX.iter().any(|(n, ..)| *n == name);
        let refused = REFUSED.iter().any(|(n, ..)| *n == name);
        if !own && !refused && functions::find(name).is_none() {
            wrong.push(format!("{name} is neither in the registry nor listed here"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
