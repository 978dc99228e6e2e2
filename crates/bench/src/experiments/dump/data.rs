//! The files of `bench dump`: a dump of several tables in the form of mariadb-dump, each table's part of
//! it alone, and each table's rows as a text file for LOAD DATA.

use crate::connect::Admin;
use crate::error::Result;
use crate::value;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Bytes of an INSERT, as of mariadb-dump.
const STATEMENT_BYTES: usize = 1 << 20;

/// Rows of the table that the foreign key references.
pub(super) const PARENTS: u64 = 1000;

/// The table that a foreign key references.
pub(super) const PARENT_TABLE: &str = "dump_parent";

/// A table of the dump.
pub(super) struct Table {
    /// Its name.
    pub(super) name: &'static str,
    /// Description of its indexes, for reports.
    pub(super) description: &'static str,
    /// Its keys besides the primary key.
    keys: &'static str,
}

/// All tables; they differ in their keys.
pub(super) const TABLES: [Table; 4] = [
    Table {
        name: "dump_plain",
        description: "primary key",
        keys: "",
    },
    Table {
        name: "dump_one",
        description: "1 secondary index",
        keys: ",\n  KEY `a` (`a`)",
    },
    Table {
        name: "dump_three",
        description: "3 secondary indexes",
        keys: ",\n  KEY `a` (`a`),\n  KEY `note` (`note`),\n  KEY `made` (`made`)",
    },
    Table {
        name: "dump_child",
        description: "foreign key",
        keys: ",\n  KEY `a` (`a`),\n  CONSTRAINT `dump_child_1` FOREIGN KEY (`a`) REFERENCES `dump_parent` (`id`)",
    },
];

impl Table {
    /// The statement that creates it.
    pub(super) fn definition(&self) -> String {
        format!(
            "CREATE TABLE `{}` (\n  `id` int(11) NOT NULL AUTO_INCREMENT,\n  `a` int(11) NOT NULL,\n  \
             `note` varchar(80) NOT NULL,\n  `made` datetime DEFAULT NULL,\n  \
             `price` decimal(10,2) NOT NULL,\n  `n` int(11) DEFAULT NULL,\n  \
             PRIMARY KEY (`id`){}\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4",
            self.name, self.keys
        )
    }

    /// The sums of its columns.
    pub(super) fn sums(&self, admin: &mut Admin) -> Result<String> {
        let query = format!(
            "select concat_ws(' ', count(*), sum(id), sum(a), sum(length(note)), \
             sum(second(made)), sum(price), sum(n), count(n)) from {}",
            self.name
        );
        Ok(admin.value(&query)?.unwrap_or_default())
    }

    fn references_parents(&self) -> bool {
        self.keys.contains(PARENT_TABLE)
    }
}

/// The statement that creates the referenced table.
pub(super) fn parent_definition() -> String {
    format!(
        "CREATE TABLE `{PARENT_TABLE}` (\n  `id` int(11) NOT NULL,\n  PRIMARY KEY (`id`)\n) \
         ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"
    )
}

/// The INSERT of the referenced rows.
pub(super) fn parent_rows() -> String {
    let rows: Vec<String> = (1..=PARENTS).map(|id| format!("({id})")).collect();
    format!("INSERT INTO `{PARENT_TABLE}` VALUES {}", rows.join(","))
}

/// A row of any of the tables.
struct Row {
    id: u64,
    a: u64,
    note: String,
    made: String,
    price: String,
    n: Option<i64>,
}

const WORDS: [&str; 16] = [
    "amber", "birch", "cobalt", "delta", "ember", "fjord", "grove", "harbor", "iris", "juniper",
    "kelp", "larch", "meadow", "north", "o'clock", "pine",
];

impl Row {
    fn of(table: &Table, id: u64, seed: u64) -> Row {
        let mut state = value::mix(seed ^ value::mix(id));
        let mut random = |below: u64| {
            state = value::mix(state);
            state % below
        };
        let a = if table.references_parents() {
            random(PARENTS) + 1
        } else {
            random(1_000_000)
        };
        let words = (0..4).map(|_| {
            usize::try_from(random(16))
                .ok()
                .and_then(|at| WORDS.get(at))
        });
        let note = words.flatten().copied().collect::<Vec<_>>().join(" ");
        let (month, day, hour) = (random(12) + 1, random(28) + 1, random(24));
        let (minute, second) = (random(60), random(60));
        let made = format!("2024-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}");
        let price = format!("{}.{:02}", random(100_000), random(100));
        let n = i64::try_from(random(220)).ok().map(|n| n - 110);
        Row {
            id,
            a,
            note,
            made,
            price,
            n: n.filter(|n| n.abs() < 100),
        }
    }

    /// Appends the row as a part of VALUES.
    fn append_values(&self, out: &mut String) {
        let _ = write!(out, "({},{},'", self.id, self.a);
        out.push_str(&self.note.replace('\'', "\\'"));
        let _ = write!(out, "','{}',{},", self.made, self.price);
        let _ = match self.n {
            Some(n) => write!(out, "{n})"),
            None => write!(out, "NULL)"),
        };
    }

    /// Appends the row as a line for LOAD DATA.
    fn append_line(&self, out: &mut String) {
        let (id, a, note) = (self.id, self.a, &self.note);
        let _ = write!(out, "{id}\t{a}\t{note}\t{}\t{}\t", self.made, self.price);
        let _ = match self.n {
            Some(n) => writeln!(out, "{n}"),
            None => writeln!(out, "\\N"),
        };
    }
}

/// The files of one table.
pub(super) struct TableFiles {
    /// Its part of the dump, without its definition.
    pub(super) inserts: PathBuf,
    /// A text file for LOAD DATA.
    pub(super) lines: PathBuf,
    /// Number of rows.
    pub(super) rows: u64,
}

/// All files.
pub(super) struct DumpFiles {
    /// Those of each of [`TABLES`].
    pub(super) tables: Vec<TableFiles>,
    /// The dump of all of them.
    pub(super) whole: PathBuf,
}

/// The SET statements with which mariadb-dump begins a dump.
const HEAD: &str = "/*!40101 SET NAMES utf8mb4 */;\n\
     /*!40014 SET @OLD_UNIQUE_CHECKS=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0 */;\n";

const HEAD_OF_ALL: &str =
    "/*!40014 SET @OLD_FOREIGN_KEY_CHECKS=@@FOREIGN_KEY_CHECKS, FOREIGN_KEY_CHECKS=0 */;\n";

/// Writes all files, of about `bytes` for the whole dump.
pub(super) fn write_files(directory: &Path, bytes: u64, seed: u64) -> Result<DumpFiles> {
    let whole = directory.join("dump.sql");
    let mut dump = BufWriter::new(File::create(&whole)?);
    dump.write_all(HEAD.as_bytes())?;
    dump.write_all(HEAD_OF_ALL.as_bytes())?;
    let (name, definition) = (PARENT_TABLE, parent_definition());
    write!(dump, "DROP TABLE IF EXISTS `{name}`;\n{definition};\n")?;
    writeln!(dump, "{};", parent_rows())?;
    let mut tables = Vec::new();
    for table in &TABLES {
        let (name, definition) = (table.name, table.definition());
        write!(dump, "DROP TABLE IF EXISTS `{name}`;\n{definition};\n")?;
        let share = bytes / TABLES.len() as u64;
        tables.push(write_table(directory, &mut dump, table, share, seed)?);
    }
    dump.flush()?;
    Ok(DumpFiles { tables, whole })
}

/// Writes the files of a table, and its part of the dump.
fn write_table(
    directory: &Path,
    dump: &mut impl Write,
    table: &Table,
    bytes: u64,
    seed: u64,
) -> Result<TableFiles> {
    let inserts = directory.join(format!("{}.sql", table.name));
    let lines = directory.join(format!("{}.txt", table.name));
    let mut own = BufWriter::new(File::create(&inserts)?);
    let mut text = BufWriter::new(File::create(&lines)?);
    own.write_all(HEAD.as_bytes())?;
    let name = table.name;
    let begin =
        format!("LOCK TABLES `{name}` WRITE;\n/*!40000 ALTER TABLE `{name}` DISABLE KEYS */;\n");
    let end = format!("/*!40000 ALTER TABLE `{name}` ENABLE KEYS */;\nUNLOCK TABLES;\n");
    let mut both = |part: &str| -> Result<()> {
        own.write_all(part.as_bytes())?;
        dump.write_all(part.as_bytes())?;
        Ok(())
    };
    both(&begin)?;
    let (mut statement, mut line) = (String::new(), String::new());
    let (mut rows, mut written) = (0, 0);
    while written < bytes {
        statement.clear();
        let _ = write!(statement, "INSERT INTO `{name}` VALUES ");
        let first = rows;
        while statement.len() < STATEMENT_BYTES && written + (statement.len() as u64) < bytes {
            rows += 1;
            let row = Row::of(table, rows, seed);
            if rows > first + 1 {
                statement.push(',');
            }
            row.append_values(&mut statement);
            line.clear();
            row.append_line(&mut line);
            text.write_all(line.as_bytes())?;
        }
        statement.push_str(";\n");
        written += statement.len() as u64;
        both(&statement)?;
    }
    both(&end)?;
    own.flush()?;
    text.flush()?;
    Ok(TableFiles {
        inserts,
        lines,
        rows,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_the_same_rows_and_about_the_size() {
        let home = tempfile::tempdir().unwrap();
        let files = write_files(home.path(), 5 << 20, 1).unwrap();
        let whole = std::fs::metadata(&files.whole).unwrap().len();
        assert!((5 << 20..6 << 20).contains(&whole), "{whole}");
        for (table, made) in TABLES.iter().zip(&files.tables) {
            let inserts = std::fs::read_to_string(&made.inserts).unwrap();
            let lines = std::fs::read_to_string(&made.lines).unwrap();
            assert_eq!(lines.lines().count() as u64, made.rows);
            assert_eq!(inserts.matches("(1,").count(), 1, "{}", table.name);
            let statements = inserts.matches("INSERT INTO").count();
            assert_eq!(statements, 2, "a statement has a megabyte");
            let last = format!("\n{}\t", made.rows);
            assert!(lines.contains(&last));
            assert!(inserts.contains(&format!("({},", made.rows)));
        }
    }
}
