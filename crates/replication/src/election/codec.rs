//! Messages and state of members as bytes (docs/formats.md, "Group members").
//!
//! Numbers are little-endian. Bytes after the end of a message are an error, so that a message of a later version is not
//! mistaken for one of this version.

use super::{Durable, MemberId, Message, View};
use std::collections::BTreeSet;

/// Version of the messages and of the state.
pub const MEMBER_FORMAT_VERSION: u8 = 1;

/// Maximum number of members of a view: it bounds what a received length allocates.
const MAX_MEMBERS: usize = 64;

const REQUEST_VOTE: u8 = 1;
const VOTE: u8 = 2;
const HEARTBEAT: u8 = 3;
const ACCEPTED: u8 = 4;

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn flags(&mut self) -> Option<[bool; 3]> {
        let [flags] = self.take()?;
        (flags < 8).then_some([flags & 1 != 0, flags & 2 != 0, flags & 4 != 0])
    }

    fn view_id(&mut self) -> Option<(u64, u64)> {
        Some((self.u64()?, self.u64()?))
    }

    fn view(&mut self) -> Option<View> {
        let (epoch, number) = self.view_id()?;
        let [count] = self.take()?;
        if usize::from(count) > MAX_MEMBERS {
            return None;
        }
        let mut in_sync = BTreeSet::new();
        for _ in 0..count {
            in_sync.insert(u32::from_le_bytes(self.take()?));
        }
        Some(View {
            epoch,
            number,
            in_sync,
        })
    }
}

fn put_flags(out: &mut Vec<u8>, flags: [bool; 3]) {
    let [a, b, c] = flags.map(u8::from);
    out.push(a | b << 1 | c << 2);
}

fn put_numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    for number in numbers {
        out.extend_from_slice(&number.to_le_bytes());
    }
}

fn put_view(out: &mut Vec<u8>, view: &View) {
    put_numbers(out, &[view.epoch, view.number]);
    let members: Vec<MemberId> = view.in_sync.iter().copied().take(MAX_MEMBERS).collect();
    out.push(u8::try_from(members.len()).unwrap_or(0));
    for member in members {
        out.extend_from_slice(&member.to_le_bytes());
    }
}

impl Message {
    /// Appends the encoded message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(MEMBER_FORMAT_VERSION);
        match self {
            Message::RequestVote {
                epoch,
                view,
                is_probe,
                is_forced,
            } => {
                out.push(REQUEST_VOTE);
                put_numbers(out, &[*epoch, view.0, view.1]);
                put_flags(out, [*is_probe, *is_forced, false]);
            }
            Message::Vote {
                epoch,
                granted,
                is_probe,
                is_blank,
            } => {
                out.push(VOTE);
                put_numbers(out, &[*epoch]);
                put_flags(out, [*granted, *is_probe, *is_blank]);
            }
            Message::Heartbeat {
                epoch,
                view,
                incarnation,
            } => {
                out.push(HEARTBEAT);
                put_numbers(out, &[*epoch, *incarnation]);
                put_view(out, view);
            }
            Message::Accepted {
                epoch,
                view,
                is_incomplete,
                incarnation,
            } => {
                out.push(ACCEPTED);
                put_numbers(out, &[*epoch, view.0, view.1, *incarnation]);
                put_flags(out, [*is_incomplete, false, false]);
            }
        }
    }

    /// Decodes a message; `None` for bytes that are not a message of this version.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Message> {
        let mut reader = Reader(bytes);
        let [version, kind] = reader.take()?;
        if version != MEMBER_FORMAT_VERSION {
            return None;
        }
        let epoch = reader.u64()?;
        let message = match kind {
            REQUEST_VOTE => {
                let view = reader.view_id()?;
                let [is_probe, is_forced, _] = reader.flags()?;
                Message::RequestVote {
                    epoch,
                    view,
                    is_probe,
                    is_forced,
                }
            }
            VOTE => {
                let [granted, is_probe, is_blank] = reader.flags()?;
                Message::Vote {
                    epoch,
                    granted,
                    is_probe,
                    is_blank,
                }
            }
            HEARTBEAT => Message::Heartbeat {
                epoch,
                incarnation: reader.u64()?,
                view: reader.view()?,
            },
            ACCEPTED => Message::Accepted {
                epoch,
                view: reader.view_id()?,
                incarnation: reader.u64()?,
                is_incomplete: reader.flags()?[0],
            },
            _ => return None,
        };
        reader.0.is_empty().then_some(message)
    }
}

impl Durable {
    /// The state as lines of text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let View {
            epoch,
            number,
            in_sync,
        } = &self.view;
        let members: Vec<String> = in_sync.iter().map(MemberId::to_string).collect();
        format!(
            "version={MEMBER_FORMAT_VERSION}\nepoch={}\nvoted-for={}\nview={epoch}.{number}\nin-sync={}\nincomplete={}\nincarnation={}\n",
            self.epoch,
            self.voted_for.map_or(String::new(), |id| id.to_string()),
            members.join(","),
            u8::from(self.is_incomplete),
            self.incarnation,
        )
    }

    /// Reads the lines. The error is a description.
    ///
    /// # Errors
    /// Another version; a line that is missing or malformed.
    pub fn from_text(text: &str) -> Result<Durable, String> {
        let value = |key: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once('='));
            let found = lines.find(|(name, _)| *name == key);
            found
                .map(|(_, value)| value)
                .ok_or_else(|| format!("it has no {key}"))
        };
        let malformed = |key: &str| format!("{key} is malformed");
        let number = |key: &str| value(key)?.parse::<u64>().map_err(|_| malformed(key));
        let version = number("version")?;
        if version != u64::from(MEMBER_FORMAT_VERSION) {
            return Err(format!(
                "it has format {version}; this server reads {MEMBER_FORMAT_VERSION}"
            ));
        }
        let voted_for = match value("voted-for")? {
            "" => None,
            id => Some(id.parse().map_err(|_| malformed("voted-for"))?),
        };
        let view = value("view")?.split_once('.');
        let view = view.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        let (epoch, view_number) = view.ok_or_else(|| malformed("view"))?;
        let members = value("in-sync")?.split(',').filter(|id| !id.is_empty());
        let in_sync: Result<BTreeSet<MemberId>, _> = members.map(str::parse).collect();
        Ok(Durable {
            epoch: number("epoch")?,
            voted_for,
            view: View {
                epoch,
                number: view_number,
                in_sync: in_sync.map_err(|_| malformed("in-sync"))?,
            },
            is_incomplete: number("incomplete")? != 0,
            incarnation: number("incarnation")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> View {
        View {
            epoch: 3,
            number: 2,
            in_sync: [1, 70_000].into(),
        }
    }

    #[test]
    fn messages_come_back_and_others_are_refused() {
        let all = [
            Message::RequestVote {
                epoch: 1 << 40,
                view: (3, 9),
                is_probe: true,
                is_forced: false,
            },
            Message::Vote {
                epoch: 4,
                granted: true,
                is_probe: false,
                is_blank: true,
            },
            Message::Heartbeat {
                epoch: 4,
                view: view(),
                incarnation: 9,
            },
            Message::Accepted {
                epoch: 4,
                view: (3, 2),
                is_incomplete: true,
                incarnation: u64::MAX,
            },
        ];
        for message in all {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            assert_eq!(Message::decode(&bytes), Some(message));
            for cut in 0..bytes.len() {
                assert_eq!(Message::decode(&bytes[..cut]), None, "{cut}");
            }
            bytes.push(0);
            assert_eq!(Message::decode(&bytes), None);
            bytes.pop();
            bytes[0] = 2;
            assert_eq!(Message::decode(&bytes), None);
        }
    }

    #[test]
    fn the_state_comes_back_and_a_damaged_one_is_refused() {
        let states = [
            Durable::blank(1, 5),
            Durable {
                epoch: 7,
                voted_for: Some(2),
                view: view(),
                is_incomplete: true,
                incarnation: u64::MAX,
            },
        ];
        for state in states {
            let text = state.to_text();
            assert_eq!(Durable::from_text(&text), Ok(state));
            for line in text.lines() {
                let without = text.replace(&format!("{line}\n"), "");
                assert!(Durable::from_text(&without).is_err(), "{line}");
            }
            let newer = text.replace("version=1", "version=2");
            assert!(Durable::from_text(&newer).unwrap_err().contains("format 2"));
        }
    }
}
