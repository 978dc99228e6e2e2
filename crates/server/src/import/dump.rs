//! The directory of a dump by MySQL Shell (`util.dumpInstance()`, `dumpSchemas()`, `dumpTables()`).
//!
//! ```text
//! @.users.sql             accounts and their privileges
//! @.json                  description of the dump; @.done.json, written last
//! shop.json, shop.sql     a schema: names of its tables and views; CREATE DATABASE, routines, events
//! shop@goods.json         a table: columns, format of its files, triggers
//! shop@goods.sql          CREATE TABLE; shop@goods.triggers.sql
//! shop@goods@0.tsv.zst    rows; the last file of several is shop@goods@@1.tsv.zst,
//! shop@goods.tsv.zst      a single one has no number
//! shop@list.pre.sql       placeholder of a view; shop@list.sql, its definition
//! ```
//!
//! Names of files are those of the objects, or what `basenames` says. Files of rows are text in the
//! format of LOAD DATA, as they are or compressed by zstd or gzip (`.tsv.gz`). Beside each is an index (`.idx`), which is
//! not needed here.

use super::connection::{literal, quote};
use crate::config::StartError;
use flate2::read::MultiGzDecoder;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Highest major version of the format that is read.
const MAX_VERSION: u32 = 2;

/// `@.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DumpFile {
    version: String,
    schemas: Vec<String>,
    basenames: HashMap<String, String>,
    tz_utc: Option<bool>,
}

/// `SCHEMA.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SchemaFile {
    schema: String,
    tables: Vec<String>,
    views: Vec<String>,
    procedures: Vec<String>,
    functions: Vec<String>,
    events: Vec<String>,
    basenames: HashMap<String, String>,
}

/// `SCHEMA@TABLE.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TableFile {
    options: TableOptions,
    includes_data: Option<bool>,
    extension: String,
    compression: String,
    basenames: HashMap<String, String>,
}

/// Columns of a table, and the format of its files.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TableOptions {
    columns: Vec<String>,
    default_character_set: String,
    fields_terminated_by: Option<String>,
    fields_enclosed_by: Option<String>,
    fields_optionally_enclosed: bool,
    fields_escaped_by: Option<String>,
    lines_terminated_by: Option<String>,
    /// Functions that decode columns.
    decode_columns: HashMap<String, String>,
}

/// A dump.
#[derive(Debug)]
pub struct Dump {
    /// The text of its description, which identifies it: it contains the time at which the dump began.
    pub description: Vec<u8>,
    /// Its schemas.
    pub schemas: Vec<Schema>,
    /// Whether TIMESTAMP values are in UTC.
    pub is_utc: bool,
}

/// A schema of a dump.
#[derive(Debug)]
pub struct Schema {
    /// Name.
    pub name: String,
    /// The script that creates it, if there is one.
    pub script: Option<PathBuf>,
    /// Its tables.
    pub tables: Vec<Table>,
    /// Its views.
    pub views: Vec<View>,
    /// Its routines and events, which `script` creates: the word in DROP, and the name.
    pub programs: Vec<(&'static str, String)>,
}

/// A table of a dump.
#[derive(Debug)]
pub struct Table {
    /// Name.
    pub name: String,
    /// The script that creates it, if there is one.
    pub script: Option<PathBuf>,
    /// The script that creates its triggers.
    pub triggers: Option<PathBuf>,
    /// Columns and format.
    pub options: TableOptions,
    /// Files of its rows.
    pub chunks: Vec<Chunk>,
}

/// A view of a dump.
#[derive(Debug)]
pub struct View {
    /// Name.
    pub name: String,
    /// The scripts of its placeholder and of the view.
    pub scripts: [Option<PathBuf>; 2],
}

/// A file of rows.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// The file.
    pub path: PathBuf,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Its compression.
    pub compression: Compression,
}

/// Compression of a file of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// None.
    None,
    /// zstd.
    Zstd,
    /// gzip.
    Gzip,
}

impl Chunk {
    /// Opens the file, and decompresses what is read.
    ///
    /// # Errors
    /// The system's.
    pub fn open(&self) -> io::Result<Box<dyn Read>> {
        let file = File::open(&self.path)?;
        Ok(match self.compression {
            Compression::None => Box::new(file),
            Compression::Zstd => Box::new(zstd::stream::read::Decoder::new(file)?),
            Compression::Gzip => Box::new(MultiGzDecoder::new(file)),
        })
    }

    /// Name of the file in the directory.
    pub fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }
}

fn failed(path: &Path, what: impl std::fmt::Display) -> StartError {
    StartError::usage(format!("import: {}: {what}", path.display()))
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, StartError> {
    let text = std::fs::read(path).map_err(|e| failed(path, e))?;
    serde_json::from_slice(&text).map_err(|e| failed(path, e))
}

fn if_there(path: PathBuf) -> Option<PathBuf> {
    path.is_file().then_some(path)
}

impl Dump {
    /// Reads the description of a dump.
    ///
    /// # Errors
    /// One line: the directory holds no dump or an incomplete one, or a newer format.
    pub fn read(folder: &Path) -> Result<Dump, StartError> {
        let path = folder.join("@.json");
        if !path.is_file() {
            return Err(failed(folder, "no dump by MySQL Shell: @.json is missing"));
        }
        if !folder.join("@.done.json").is_file() {
            let what = "the dump is not complete: @.done.json is missing";
            return Err(failed(folder, what));
        }
        let description = std::fs::read(&path).map_err(|e| failed(&path, e))?;
        let file: DumpFile = serde_json::from_slice(&description).map_err(|e| failed(&path, e))?;
        let major = file.version.split('.').next().unwrap_or_default();
        match major.parse::<u32>() {
            Ok(major) if (1..=MAX_VERSION).contains(&major) => {}
            _ => {
                let what = format!(
                    "the dump has format version {:?}; versions 1 to {MAX_VERSION} are read",
                    file.version
                );
                return Err(failed(&path, what));
            }
        }
        let names = folder_names(folder)?;
        let schemas = file.schemas.iter().map(|name| {
            let base = file.basenames.get(name).unwrap_or(name);
            Schema::read(folder, base, &names)
        });
        Ok(Dump {
            description,
            schemas: schemas.collect::<Result<_, _>>()?,
            is_utc: file.tz_utc.unwrap_or(true),
        })
    }
}

fn folder_names(folder: &Path) -> Result<Vec<String>, StartError> {
    let entries = std::fs::read_dir(folder).map_err(|e| failed(folder, e))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| failed(folder, e))?;
        names.extend(entry.file_name().into_string());
    }
    names.sort_unstable();
    Ok(names)
}

impl Schema {
    fn read(folder: &Path, base: &str, names: &[String]) -> Result<Schema, StartError> {
        let file: SchemaFile = read_json(&folder.join(format!("{base}.json")))?;
        let of = |object: &String| {
            let known = file.basenames.get(object);
            known.cloned().unwrap_or_else(|| format!("{base}@{object}"))
        };
        let tables = file.tables.iter();
        let tables = tables.map(|name| Table::read(folder, name, &of(name), names));
        let views = file.views.iter().map(|name| {
            let base = of(name);
            let script = |suffix| if_there(folder.join(format!("{base}{suffix}")));
            View {
                name: name.clone(),
                scripts: [script(".pre.sql"), script(".sql")],
            }
        });
        Ok(Schema {
            script: if_there(folder.join(format!("{base}.sql"))),
            tables: tables.collect::<Result<_, _>>()?,
            views: views.collect(),
            programs: [
                ("PROCEDURE", file.procedures),
                ("FUNCTION", file.functions),
                ("EVENT", file.events),
            ]
            .into_iter()
            .flat_map(|(kind, names)| names.into_iter().map(move |name| (kind, name)))
            .collect(),
            name: file.schema,
        })
    }
}

impl Table {
    fn read(folder: &Path, name: &str, base: &str, names: &[String]) -> Result<Table, StartError> {
        let path = folder.join(format!("{base}.json"));
        let file: TableFile = read_json(&path)?;
        let compression = match file.compression.split(';').next().unwrap_or_default() {
            "none" | "" => Compression::None,
            "zstd" => Compression::Zstd,
            "gzip" => Compression::Gzip,
            other => {
                let what = format!(
                    "compression {other:?} is not supported: dump with `compression: \"zstd\"`, \
                     \"gzip\" or \"none\""
                );
                return Err(failed(&path, what));
            }
        };
        let mut chunks = Vec::new();
        if file.includes_data.unwrap_or(true) {
            let parts = file.basenames.values().map(String::as_str);
            let bases: Vec<&str> = std::iter::once(base).chain(parts).collect();
            for found in names
                .iter()
                .filter(|n| is_chunk(n, &bases, &file.extension))
            {
                let path = folder.join(found);
                let bytes = std::fs::metadata(&path)
                    .map_err(|e| failed(&path, e))?
                    .len();
                chunks.push(Chunk {
                    path,
                    bytes,
                    compression,
                });
            }
            if chunks.is_empty() {
                return Err(failed(&path, "the files with the table's rows are missing"));
            }
        }
        let script = |suffix: &str| if_there(folder.join(format!("{base}{suffix}")));
        Ok(Table {
            name: name.to_owned(),
            script: script(".sql"),
            triggers: script(".triggers.sql"),
            options: file.options,
            chunks,
        })
    }
}

/// Whether a file holds rows of a table (or partition) with one of these base names.
fn is_chunk(name: &str, bases: &[&str], extension: &str) -> bool {
    let Some(stem) = name
        .strip_suffix(extension)
        .and_then(|s| s.strip_suffix('.'))
    else {
        return false;
    };
    bases.iter().any(|base| match stem.strip_prefix(base) {
        Some("") => true,
        Some(number) => {
            let number = number.strip_prefix("@@").or(number.strip_prefix('@'));
            number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        }
        None => false,
    })
}

impl TableOptions {
    /// The LOAD DATA statement of the table's files.
    pub fn load_statement(&self, schema: &str, table: &str) -> String {
        let charset = match self.default_character_set.as_str() {
            "" => "utf8mb4",
            given => given,
        };
        let text =
            |given: &Option<String>, default: &str| literal(given.as_deref().unwrap_or(default));
        let enclosed = if self.fields_optionally_enclosed {
            " OPTIONALLY ENCLOSED BY "
        } else {
            " ENCLOSED BY "
        };
        let mut statement = format!(
            "LOAD DATA LOCAL INFILE 'rows' INTO TABLE {}.{} CHARACTER SET {charset} FIELDS TERMINATED \
             BY {}{enclosed}{} ESCAPED BY {} LINES TERMINATED BY {}",
            quote(schema),
            quote(table),
            text(&self.fields_terminated_by, "\t"),
            text(&self.fields_enclosed_by, ""),
            text(&self.fields_escaped_by, "\\"),
            text(&self.lines_terminated_by, "\n"),
        );
        if self.columns.is_empty() {
            return statement;
        }
        let (mut fields, mut set) = (Vec::new(), Vec::new());
        for (at, column) in self.columns.iter().enumerate() {
            match self.decode_columns.get(column) {
                Some(function) => {
                    fields.push(format!("@c{at}"));
                    set.push(format!("{} = {function}(@c{at})", quote(column)));
                }
                None => fields.push(quote(column)),
            }
        }
        statement.push_str(&format!(" ({})", fields.join(",")));
        if !set.is_empty() {
            statement.push_str(&format!(" SET {}", set.join(",")));
        }
        statement
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_those_of_the_table_only() {
        let chunk = |name| is_chunk(name, &["shop@goods"], "tsv.zst");
        assert!(chunk("shop@goods.tsv.zst"));
        assert!(chunk("shop@goods@0.tsv.zst"));
        assert!(chunk("shop@goods@@12.tsv.zst"));
        for other in [
            "shop@goods.tsv.zst.idx",
            "shop@goods@0.tsv.zst.idx",
            "shop@goods2.tsv.zst",
            "shop@goods@x.tsv.zst",
            "shop@goods.sql",
            "shop@goods@0.tsv",
        ] {
            assert!(!chunk(other), "{other}");
        }
    }

    #[test]
    fn the_statement_names_columns_and_decodes_them() {
        let options = TableOptions {
            columns: vec!["id".to_owned(), "a`b".to_owned()],
            decode_columns: HashMap::from([("a`b".to_owned(), "FROM_BASE64".to_owned())]),
            ..TableOptions::default()
        };
        let statement = options.load_statement("s", "t");
        let end = "FIELDS TERMINATED BY '\t' ENCLOSED BY '' ESCAPED BY '\\\\' LINES TERMINATED BY '\\n' \
                   (`id`,@c1) SET `a``b` = FROM_BASE64(@c1)";
        assert!(statement.ends_with(end), "{statement}");
    }
}
