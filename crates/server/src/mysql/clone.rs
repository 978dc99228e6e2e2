//! COM_CLONE: a copy of all data, for a member of a group whose data the binary log does not continue.
//!
//! The command has one byte, the version of the format. The answer is a sequence of packets, each with 0 in front, then a kind:
//!
//! ```text
//! 00 | 01 | description: JSON (docs/formats.md)     the files and their lengths, the position in the log and in the binary log
//! 00 | 02 | bytes                                   the files one after the other, in the order of the description
//! 00 | 03 | start (8) | time (8) | length (8)       a group of the engine's log, whose records follow
//! 00 | 04 | bytes                                   records of that group
//! 00 | 05 | position (8)                            the end: the log reaches this position
//! ```
//!
//! The copy is that of a backup ([`porpoise_kv_mem::HotCopy`]): nothing is blocked, and no checkpoint is written. The account needs
//! REPLICATION SLAVE and BACKUP_ADMIN, because the copy has the rows of all accounts, too.

use super::Shared;
use super::answer::{Answer, client_gone};
use super::session::{Flow, LoggedIn};
use crate::backup::log_position::begin_copy;
use porpoise_backup::{BackupFile, BinlogPosition};
use porpoise_base::base64;
use porpoise_kv_mem::{HotCopy, LogCopy};
use porpoise_sql::SqlError;
use porpoise_wire::mysql::frame;
use serde::{Deserialize, Serialize};

/// Version of the format.
pub(crate) const CLONE_FORMAT_VERSION: u8 = 1;

/// Longest part of a file or of a group's records, in bytes.
const PART_BYTES: usize = 1 << 20;

/// Kinds of packets.
pub(crate) mod kind {
    /// The description.
    pub(crate) const DESCRIPTION: u8 = 1;
    /// A part of a file.
    pub(crate) const FILE: u8 = 2;
    /// The head of a group of the log.
    pub(crate) const GROUP: u8 = 3;
    /// Records of a group.
    pub(crate) const RECORDS: u8 = 4;
    /// The end.
    pub(crate) const END: u8 = 5;
}

/// The first packet.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Description {
    /// The store's manifest in base64; absent before its first checkpoint.
    pub(crate) manifest: Option<String>,
    /// The files that the manifest names.
    pub(crate) files: Vec<BackupFile>,
    /// Position in the binary log.
    pub(crate) binlog: BinlogPosition,
}

fn failed(error: &dyn std::fmt::Display) -> SqlError {
    SqlError::new(3862, "HY000", format!("Clone Donor Error: {error}"))
}

impl LoggedIn {
    /// Sends a copy of all data.
    pub(super) fn clone_data(
        &mut self,
        shared: &Shared,
        version: u8,
        answer: &mut Answer<'_>,
    ) -> Flow {
        match self.send_copy(shared, version, answer) {
            Ok(()) => Flow::Continue,
            Err(error) => {
                self.reply_error(error, answer);
                Flow::Close
            }
        }
    }

    fn send_copy(
        &self,
        shared: &Shared,
        version: u8,
        answer: &mut Answer<'_>,
    ) -> Result<(), SqlError> {
        self.sql.check_may_clone()?;
        if version != CLONE_FORMAT_VERSION {
            let text = format!(
                "version {version} of the format is requested; this server has version {CLONE_FORMAT_VERSION}"
            );
            return Err(failed(&text));
        }
        let (Some(engine), Some(binlog)) = (&shared.engine, &shared.binlog) else {
            return Err(failed(&"it has no binary log (--log-bin)"));
        };
        let copy = begin_copy(engine, Some(binlog)).map_err(|e| failed(&e))?;
        let (copy, Some(binlog)) = copy else {
            return Err(failed(
                &"its position in the binary log is not known at present",
            ));
        };
        let description = describe(&copy, binlog)?;
        send(answer, kind::DESCRIPTION, &description)?;
        for file in &copy.files {
            let mut at = 0;
            while at < file.bytes {
                self.check_cancelled()?;
                let part = file.read(at, PART_BYTES).map_err(|e| failed(&e))?;
                send(answer, kind::FILE, &part)?;
                at += part.len() as u64;
            }
        }
        let end = self.send_log(copy.log, answer)?;
        send(answer, kind::END, &end.to_le_bytes())?;
        answer.drain().map_err(|_| client_gone())
    }

    fn send_log(&self, mut log: LogCopy, answer: &mut Answer<'_>) -> Result<u64, SqlError> {
        let end = log.end();
        while let Some(group) = log.next_group().map_err(|e| failed(&e))? {
            self.check_cancelled()?;
            let length = group.records.len() as u64;
            let head = [group.start, group.time, length]
                .map(u64::to_le_bytes)
                .concat();
            send(answer, kind::GROUP, &head)?;
            for part in group.records.chunks(PART_BYTES) {
                send(answer, kind::RECORDS, part)?;
            }
        }
        Ok(end)
    }

    fn check_cancelled(&self) -> Result<(), SqlError> {
        if self.sql.is_cancelled() {
            return Err(client_gone());
        }
        Ok(())
    }
}

fn describe(copy: &HotCopy, binlog: BinlogPosition) -> Result<Vec<u8>, SqlError> {
    let manifest = copy.manifest.as_deref().map(|bytes| {
        let mut text = Vec::new();
        base64::encode(bytes, &mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let file = |file: &porpoise_kv_mem::CopiedFile| BackupFile {
        name: file.name.clone(),
        bytes: file.bytes,
    };
    let description = Description {
        manifest,
        files: copy.files.iter().map(file).collect(),
        binlog,
    };
    serde_json::to_vec(&description).map_err(|e| failed(&e))
}

/// Appends a packet; sends the output if it is large.
fn send(answer: &mut Answer<'_>, kind: u8, bytes: &[u8]) -> Result<(), SqlError> {
    let start = frame::begin(answer.out.buf());
    let out = answer.out.buf();
    out.extend_from_slice(&[0, kind]);
    out.extend_from_slice(bytes);
    frame::finish(answer.out.buf(), start, &mut answer.sequence);
    if answer.out.is_full() {
        answer.drain().map_err(|_| client_gone())?;
    }
    Ok(())
}
