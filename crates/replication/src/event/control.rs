//! Events of the log itself: ROTATE, HEARTBEAT, INCIDENT; and XA_PREPARE.

use super::bytes::{lenenc_len, put_lenenc, put_lenenc_bytes, put_uint};
use super::{Decoded, Reader};
use porpoise_rows::prepared::Xid;

/// ROTATE: the stream goes on in another file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotate {
    /// Position of the next event in that file.
    pub position: u64,
    /// Name of the file.
    pub file: Vec<u8>,
}

impl Rotate {
    pub(super) fn decode(mut body: Reader<'_>) -> Decoded<Rotate> {
        Ok(Rotate {
            position: body.u64("position")?,
            file: body.rest().to_vec(),
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.position.to_le_bytes());
        out.extend_from_slice(&self.file);
    }
}

/// HEARTBEAT: sent when nothing was logged for the period that the replica requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// The source's current file.
    pub file: Vec<u8>,
    /// Position of its end.
    pub position: u64,
    /// Whether the form is that of MySQL 8.0.26, whose position has 64 bits.
    pub is_version_2: bool,
}

/// Tags of the fields of version 2.
const END_OF_FIELDS: u64 = 0;
const FILE: u64 = 1;
const POSITION: u64 = 2;

impl Heartbeat {
    pub(super) fn decode_v1(mut body: Reader<'_>, position: u32) -> Heartbeat {
        Heartbeat {
            file: body.rest().to_vec(),
            position: u64::from(position),
            is_version_2: false,
        }
    }

    pub(super) fn decode_v2(mut body: Reader<'_>) -> Decoded<Heartbeat> {
        let mut heartbeat = Heartbeat {
            file: Vec::new(),
            position: 0,
            is_version_2: true,
        };
        while !body.is_empty() {
            let tag = body.lenenc("tag")?;
            if tag == END_OF_FIELDS {
                break;
            }
            let value = body.lenenc_bytes("field")?;
            match tag {
                FILE => heartbeat.file = value.to_vec(),
                POSITION => {
                    heartbeat.position = Reader::new("HEARTBEAT", value).lenenc("position")?;
                }
                _ => {}
            }
        }
        Ok(heartbeat)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        if !self.is_version_2 {
            out.extend_from_slice(&self.file);
            return;
        }
        put_lenenc(out, FILE);
        put_lenenc_bytes(out, &self.file);
        put_lenenc(out, POSITION);
        put_lenenc(out, lenenc_len(self.position) as u64);
        put_lenenc(out, self.position);
        put_lenenc(out, END_OF_FIELDS);
    }
}

/// INCIDENT: the source's log may lack events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// 1: events lost.
    pub number: u16,
    /// Explanation of the source.
    pub message: Vec<u8>,
}

impl Incident {
    pub(super) fn decode(mut body: Reader<'_>) -> Decoded<Incident> {
        Ok(Incident {
            number: body.u16("number")?,
            message: body.short_bytes("message")?.to_vec(),
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_uint(out, u64::from(self.number), 2);
        super::bytes::put_short_bytes(out, &self.message);
    }
}

/// XA_PREPARE: the branch that began before is prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XaPrepare {
    /// Whether the branch is committed at once (XA COMMIT ... ONE PHASE).
    pub one_phase: bool,
    /// Identifier of the branch.
    pub xid: Xid,
}

impl XaPrepare {
    pub(super) fn decode(mut body: Reader<'_>) -> Decoded<XaPrepare> {
        let one_phase = body.u8("phase")? != 0;
        let format = body.u32("format")?;
        let global = body.u32("length of the global part")?;
        let branch = body.u32("length of the branch")?;
        // MySQL's limit of each part; the reader compares with what is there.
        if global > 64 || branch > 64 {
            return Err(body.error(format!("an identifier of {global} and {branch} bytes")));
        }
        let xid = Xid {
            format: u64::from(format),
            global: body.take(global as usize, "global part")?.to_vec(),
            branch: body.take(branch as usize, "branch")?.to_vec(),
        };
        Ok(XaPrepare { one_phase, xid })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.one_phase));
        let xid = &self.xid;
        put_uint(out, xid.format, 4);
        put_uint(out, xid.global.len() as u64, 4);
        put_uint(out, xid.branch.len() as u64, 4);
        out.extend_from_slice(&xid.global);
        out.extend_from_slice(&xid.branch);
    }
}
