//! The progress of an import, kept in the server that is loaded.
//!
//! A file of rows and the note that it is loaded are one transaction, so that neither the death of this program
//! nor that of the server loads a row twice or leaves one out. The notes are rows of a table
//! `porpoise_import.progress`, which an import creates before it changes anything else and drops at its end:
//!
//! | kind | name |
//! |---|---|
//! | `start` | empty: schemas and tables of the dump that exist from now on were created by this import |
//! | `kept` | a table or view that existed before and stays as it is, `schema`.`name` |
//! | `account` | an account that existed before and stays as it is, `'user'@'host'` |
//! | `file` | a file whose rows are loaded |
//!
//! An import is identified by a digest of the dump's description and of the selection, so that another dump, or
//! other options, are another import. The note of a file is inserted before its rows: if a former process died
//! and its COMMIT is still on its way, the insertion waits for it, and then fails because the note exists.

use super::accounts::{AccountName, account_name, shown};
use super::connection::{Server, literal, quote};
use crate::config::StartError;
use porpoise_base::password::sha_crypt::sha256;
use std::collections::BTreeSet;
use std::fmt::Write;

const SCHEMA: &str = "porpoise_import";
const TABLE: &str = "porpoise_import.progress";

/// Wait for a lock that a dying process still has.
const LOCK_SECONDS: u32 = 10;

/// Digits of the import's identity in the name of its lock: names have at most 64 characters.
const LOCK_DIGITS: usize = 40;

/// Error 1062: the note exists.
pub const DUPLICATE: u16 = 1062;

/// Progress of an import.
#[derive(Debug, Default)]
pub struct Progress {
    id: String,
    /// Whether an earlier process began this import.
    pub is_resumed: bool,
    /// Tables and views that stay as they were, by schema and name.
    pub kept: BTreeSet<(String, String)>,
    /// Accounts that stay as they were.
    pub kept_accounts: BTreeSet<AccountName>,
    /// Names of the files whose rows are loaded.
    pub loaded: BTreeSet<String>,
}

/// The digest of what identifies an import.
pub fn identity(parts: &[&[u8]]) -> String {
    let mut text = String::new();
    for byte in sha256(parts) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Keeps other imports from creating or dropping the table of notes.
fn exclusive(server: &mut Server) -> Result<(), StartError> {
    lock(server, SCHEMA)
}

fn release(server: &mut Server) -> Result<(), StartError> {
    server.run(&format!("DO RELEASE_LOCK('{SCHEMA}')"))?;
    Ok(())
}

/// Takes a named lock of the server, which ends with the connection.
fn lock(server: &mut Server, name: &str) -> Result<(), StartError> {
    let reply = server.run(&format!("SELECT GET_LOCK('{name}', {LOCK_SECONDS})"))?;
    let value = reply.rows.first().and_then(|row| row.first()).cloned();
    if value.flatten().as_deref() == Some("1") {
        return Ok(());
    }
    Err(StartError::usage(
        "import: another import of this dump is running",
    ))
}

impl Progress {
    /// Excludes other processes that run the same import, as long as the connection lives, and reads its notes.
    ///
    /// # Errors
    /// The server's; another process runs the import.
    pub fn open(server: &mut Server, id: String) -> Result<Progress, StartError> {
        let name = format!("{SCHEMA} {}", id.get(..LOCK_DIGITS).unwrap_or(&id));
        lock(server, &name)?;
        Progress::read(server, id)
    }

    /// Reads the notes of an import.
    fn read(server: &mut Server, id: String) -> Result<Progress, StartError> {
        let mut progress = Progress {
            id,
            ..Progress::default()
        };
        let tables = format!(
            "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{SCHEMA}' AND TABLE_NAME = 'progress'"
        );
        if server.run(&tables)?.rows.is_empty() {
            return Ok(progress);
        }
        let id = &progress.id;
        let notes = format!("SELECT kind, name FROM {TABLE} WHERE import = '{id}'");
        for row in server.run(&notes)?.rows {
            let mut cells = row.into_iter().map(Option::unwrap_or_default);
            let (kind, name) = (
                cells.next().unwrap_or_default(),
                cells.next().unwrap_or_default(),
            );
            match &*kind {
                "start" => progress.is_resumed = true,
                "account" => progress.kept_accounts.extend(account_name(&name)),
                "kept" => progress
                    .kept
                    .extend(super::selection::table_name(&name).ok()),
                _ => {
                    progress.loaded.insert(name);
                }
            }
        }
        Ok(progress)
    }

    /// Records the beginning of the import, with the tables and views that stay.
    ///
    /// # Errors
    /// The server's.
    pub fn begin(&self, server: &mut Server) -> Result<(), StartError> {
        exclusive(server)?;
        server.run(&format!(
            "CREATE DATABASE IF NOT EXISTS {SCHEMA}; CREATE TABLE IF NOT EXISTS {TABLE} (import CHAR(64) \
             CHARACTER SET ascii NOT NULL, kind VARCHAR(8) CHARACTER SET ascii NOT NULL, name VARCHAR(512) \
             CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, PRIMARY KEY (import, kind, name))"
        ))?;
        let mut notes = self.note("start", "");
        for (schema, name) in &self.kept {
            let name = format!("{}.{}", quote(schema), quote(name));
            notes.push_str("; ");
            notes.push_str(&self.note("kept", &name));
        }
        for account in &self.kept_accounts {
            notes.push_str("; ");
            notes.push_str(&self.note("account", &shown(account)));
        }
        server.run(&format!("START TRANSACTION; {notes}; COMMIT"))?;
        release(server)
    }

    /// The statement that notes a file.
    pub fn note_file(&self, name: &str) -> String {
        self.note("file", name)
    }

    fn note(&self, kind: &str, name: &str) -> String {
        let id = &self.id;
        format!(
            "INSERT INTO {TABLE} VALUES ('{id}', '{kind}', {})",
            literal(name)
        )
    }

    /// Forgets the import.
    ///
    /// # Errors
    /// The server's.
    pub fn forget(&self, server: &mut Server) -> Result<(), StartError> {
        let id = &self.id;
        exclusive(server)?;
        server.run(&format!("DELETE FROM {TABLE} WHERE import = '{id}'"))?;
        let rest = server.run(&format!("SELECT 1 FROM {TABLE} LIMIT 1"))?;
        if rest.rows.is_empty() {
            server.run(&format!("DROP DATABASE {SCHEMA}"))?;
        }
        release(server)
    }

    /// Forgets the import of a former process.
    ///
    /// # Errors
    /// The server's.
    pub fn forget_and_reopen(self, server: &mut Server) -> Result<Progress, StartError> {
        self.forget(server)?;
        Ok(Progress {
            id: self.id,
            ..Progress::default()
        })
    }
}
