//! Statements that the project's other tests send, and mutations of them: of bytes, and of tokens,
//! which get past the lexer.

use porpoise_testkit::Random;
use std::path::Path;
use std::sync::OnceLock;

/// Statements file by file, in the order in which they make sense.
pub fn files() -> &'static [Vec<String>] {
    static FILES: OnceLock<Vec<Vec<String>>> = OnceLock::new();
    FILES.get_or_init(|| {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut files = Vec::new();
        for (folder, read) in [
            (
                "sql_parser/tests/fixtures",
                lines as fn(&str) -> Vec<String>,
            ),
            ("sql/tests/differential", lines),
            ("sql/tests/sql", blocks),
        ] {
            let entries = std::fs::read_dir(crates.join(folder)).expect("a folder of statements");
            let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
            paths.retain(|p| p.extension().is_some_and(|e| e == "sql" || e == "slt"));
            paths.sort();
            for path in paths {
                let text = std::fs::read(path).expect("a file of statements");
                files.push(read(&String::from_utf8_lossy(&text)));
            }
        }
        // The account would not be opened by those that come later.
        let locks = |s: &String| {
            let lower = s.to_lowercase();
            lower.contains("password") || lower.contains("identified") || lower.contains("account")
        };
        files.iter_mut().for_each(|all| all.retain(|s| !locks(s)));
        files.retain(|statements| !statements.is_empty());
        assert!(files.len() > 50, "{}", files.len());
        files
    })
}

/// A statement a line.
fn lines(text: &str) -> Vec<String> {
    let line = |line: &str| line.trim().trim_end_matches(';').to_owned();
    text.lines().map(line).filter(|l| !l.is_empty()).collect()
}

/// The statements of a golden file: a block's lines between its directives and its rows.
fn blocks(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    for block in text.split("\n\n") {
        let mut statement = String::new();
        let body = block.lines().skip_while(|l| l.starts_with('#')).skip(1);
        for line in body.take_while(|l| !l.starts_with("----")) {
            if !line.starts_with("param ") {
                statement.push_str(line);
                statement.push('\n');
            }
        }
        if !statement.trim().is_empty() {
            all.push(statement.trim().to_owned());
        }
    }
    all
}

/// A statement from anywhere.
pub fn statement(random: &mut Random) -> &'static str {
    let file = &files()[random.below(files().len())];
    random.pick(file.as_slice()).as_str()
}

/// Literals at the edges of types, and words that belong elsewhere.
const STRANGE: &[&str] = &[
    "NULL",
    "-1",
    "0",
    "18446744073709551615",
    "-9223372036854775808",
    "9223372036854775808",
    "1e308",
    "-1e-320",
    "0.000000000000000000000000000000000000000000000000000000000000000001",
    "99999999999999999999999999999999999999999999999999999999999999999",
    "''",
    "'x'",
    "x'ff00'",
    "b'1'",
    "_latin1'\\xe4'",
    "_binary'\\0'",
    "'2024-02-30'",
    "'0000-00-00'",
    "'9999-12-31 23:59:59.999999'",
    "'-838:59:59'",
    "TIMESTAMP'2038-01-19 03:14:08'",
    "REPEAT('ab', 70000)",
    "SPACE(1000000)",
    "CAST('[1,{\"a\":null}]' AS JSON)",
    "(SELECT 1 UNION SELECT 2)",
    "(SELECT * FROM t)",
    "(1, 2)",
    "ROW(1, NULL)",
    "@a",
    "@@sql_mode",
    "?",
    "*",
    "t",
    "id",
    "COUNT(*)",
    "MAX(id)",
    "NOW(6)",
    "UUID()",
    "RAND()",
    "INTERVAL 1 DAY",
    "DISTINCT",
    "COLLATE utf8mb4_bin",
    "LIMIT 18446744073709551615",
    "FOR UPDATE",
    "GROUP BY 1 WITH ROLLUP",
    "ORDER BY 1",
    "UNION ALL SELECT 1",
    "DEFAULT",
    "PARTITION (p0)",
    "ON DUPLICATE KEY UPDATE id = id + 1",
    "GENERATED ALWAYS AS (1) STORED",
    "CHECK (id > 0)",
];

/// Splits a statement where its words, numbers, strings and signs end; white space is dropped.
fn tokens(text: &str) -> Vec<&str> {
    let mut all = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '@' | '.');
        let end = if word(first) {
            rest.find(|c| !word(c))
        } else if matches!(first, '\'' | '"' | '`') {
            rest[1..].find(first).map(|at| at + 2)
        } else {
            Some(first.len_utf8())
        };
        let (token, after) = rest.split_at(end.unwrap_or(rest.len()));
        if !first.is_whitespace() {
            all.push(token);
        }
        rest = after;
    }
    all
}

/// A statement with some tokens replaced, removed, doubled or exchanged.
pub fn mutate_tokens(random: &mut Random, text: &str) -> String {
    let mut all = tokens(text);
    for _ in 0..1 + random.below(3) {
        if all.is_empty() {
            break;
        }
        let at = random.below(all.len());
        match random.below(7) {
            0 | 1 => all[at] = *random.pick(STRANGE),
            2 => all.insert(at, *random.pick(STRANGE)),
            3 => drop(all.remove(at)),
            4 => {
                let other = random.below(all.len());
                all.swap(at, other);
            }
            5 => {
                let other = tokens(statement(random));
                if !other.is_empty() {
                    all[at] = other[random.below(other.len())];
                }
            }
            _ => {
                let end = (at + 1 + random.below(6)).min(all.len());
                let part = all[at..end].to_vec();
                all.splice(at..at, part);
            }
        }
    }
    all.join(" ")
}

/// A statement as bytes: as it is, with other tokens, or with other bytes.
pub fn mutated(random: &mut Random, text: &str) -> Vec<u8> {
    match random.below(8) {
        0..3 => text.into(),
        3..7 => mutate_tokens(random, text).into_bytes(),
        _ => random.mutate(text.as_bytes()),
    }
}
