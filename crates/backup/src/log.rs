//! Pieces of the log: objects `log/FROM-TO` with the groups between two positions.
//!
//! Pieces may overlap, since backups and the archive both write them; groups are the same in all.

/// The version of the pieces' content that this build writes and reads.
pub const PIECE_FORMAT_VERSION: u32 = 1;

/// Size of a piece's content in bytes at which it is written.
pub const PIECE_BYTES: usize = 8 << 20;

/// Bytes of a group before its records.
const GROUP_HEAD: usize = 20;

/// Records that were written to the log together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Position of the first record.
    pub start: u64,
    /// Time of the write in microseconds since 1970 UTC; 0 if unknown.
    pub time: u64,
    /// The records.
    pub records: Vec<u8>,
}

impl Group {
    /// Position after the last record.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.records.len() as u64)
    }
}

/// A piece of the log in a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Piece {
    /// Position of its first record.
    pub from: u64,
    /// Position after its last record.
    pub to: u64,
}

impl Piece {
    /// The object's name.
    pub fn name(&self) -> String {
        format!("log/{:020}-{:020}", self.from, self.to)
    }

    /// The piece with an object's name.
    pub fn of_name(name: &str) -> Option<Piece> {
        let (from, to) = name.strip_prefix("log/")?.split_once('-')?;
        let piece = Piece {
            from: from.parse().ok()?,
            to: to.parse().ok()?,
        };
        (piece.from < piece.to && piece.name() == name).then_some(piece)
    }
}

/// The position up to which pieces in order cover the log without a gap, from `from` on; `from` if none
/// does.
pub fn covered(pieces: &[Piece], from: u64) -> u64 {
    let mut sweep = Sweep::new(pieces.to_vec());
    let mut end = from;
    while let Some(next) = sweep.next(end) {
        end = next.to;
    }
    end
}

/// Pieces in order, of which each position needs the one that reaches furthest. Positions only grow.
pub(crate) struct Sweep {
    pieces: Vec<Piece>,
    /// Number of pieces that begin at or before the last position.
    seen: usize,
    /// The one of them that reaches furthest.
    best: Option<Piece>,
}

impl Sweep {
    pub(crate) fn new(pieces: Vec<Piece>) -> Sweep {
        Sweep {
            pieces,
            seen: 0,
            best: None,
        }
    }

    /// The piece that covers a position and reaches furthest.
    pub(crate) fn next(&mut self, at: u64) -> Option<Piece> {
        while let Some(piece) = self.pieces.get(self.seen).filter(|p| p.from <= at) {
            if self.best.is_none_or(|best| best.to < piece.to) {
                self.best = Some(*piece);
            }
            self.seen += 1;
        }
        self.best.filter(|best| best.to > at)
    }
}

/// Collects groups into pieces.
pub struct PieceWriter {
    content: Vec<u8>,
    from: u64,
    to: u64,
}

impl Default for PieceWriter {
    fn default() -> PieceWriter {
        PieceWriter {
            content: PIECE_FORMAT_VERSION.to_le_bytes().to_vec(),
            from: 0,
            to: 0,
        }
    }
}

impl PieceWriter {
    /// Appends a group, which follows the one before.
    pub fn push(&mut self, group: &Group) {
        if self.is_empty() {
            self.from = group.start;
        }
        self.content.extend_from_slice(&group.start.to_le_bytes());
        self.content.extend_from_slice(&group.time.to_le_bytes());
        let len = group.records.len() as u32;
        self.content.extend_from_slice(&len.to_le_bytes());
        self.content.extend_from_slice(&group.records);
        self.to = group.end();
    }

    /// Whether there are no groups.
    pub fn is_empty(&self) -> bool {
        self.content.len() <= 4
    }

    /// Bytes of the content so far.
    pub(crate) fn len(&self) -> usize {
        self.content.len()
    }

    /// Whether the piece is large enough to be written.
    pub fn is_full(&self) -> bool {
        self.content.len() >= PIECE_BYTES
    }

    /// The piece and its content, if there are groups. The writer is empty afterwards.
    pub fn take(&mut self) -> Option<(Piece, Vec<u8>)> {
        if self.is_empty() {
            return None;
        }
        let done = std::mem::take(self);
        let piece = Piece {
            from: done.from,
            to: done.to,
        };
        Some((piece, done.content))
    }
}

/// Decodes a piece's content; the error says what is wrong.
pub(crate) fn groups(piece: Piece, content: &[u8]) -> std::result::Result<Vec<Group>, String> {
    let short = || "it ends within a group".to_owned();
    let (version, mut rest) = content.split_first_chunk::<4>().ok_or_else(short)?;
    let version = u32::from_le_bytes(*version);
    if version != PIECE_FORMAT_VERSION {
        return Err(format!(
            "piece format {version}; this program reads {PIECE_FORMAT_VERSION}"
        ));
    }
    let mut groups = Vec::new();
    let mut at = piece.from;
    while !rest.is_empty() {
        let (head, after) = rest.split_first_chunk::<GROUP_HEAD>().ok_or_else(short)?;
        let [start, time, len] = split_head(head);
        let len = usize::try_from(len).map_err(|_| short())?;
        let (records, after) = after.split_at_checked(len).ok_or_else(short)?;
        if start != at {
            return Err("its groups do not follow each other".to_owned());
        }
        let group = Group {
            start,
            time,
            records: records.to_vec(),
        };
        at = group.end();
        groups.push(group);
        rest = after;
    }
    if at == piece.to {
        Ok(groups)
    } else {
        Err("its groups end elsewhere than its name says".to_owned())
    }
}

fn split_head(head: &[u8; GROUP_HEAD]) -> [u64; 3] {
    let number = |bytes: &[u8]| {
        let digits = bytes.iter().rev();
        digits.fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    };
    let (start, rest) = head.split_at(8);
    let (time, len) = rest.split_at(8);
    [number(start), number(time), number(len)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(from: u64, to: u64) -> Piece {
        Piece { from, to }
    }

    #[test]
    fn names_of_pieces_round_trip() {
        let one = piece(0, 12_345);
        assert_eq!(Piece::of_name(&one.name()), Some(one));
        for bad in ["log/1-2", "log/", "data/x", &piece(5, 5).name()] {
            assert_eq!(Piece::of_name(bad), None, "{bad}");
        }
    }

    #[test]
    fn pieces_cover_the_log_up_to_the_first_gap() {
        let pieces = [piece(0, 10), piece(5, 30), piece(10, 20), piece(31, 40)];
        assert_eq!(covered(&pieces, 0), 30);
        assert_eq!(covered(&pieces, 12), 30);
        assert_eq!(covered(&pieces, 30), 30);
        assert_eq!(covered(&pieces, 31), 40);
        assert_eq!(covered(&[], 7), 7);
    }

    #[test]
    fn groups_come_back_and_others_are_refused() {
        let mut writer = PieceWriter::default();
        assert!(writer.take().is_none());
        let all: Vec<Group> = [(100, 40), (140, 1), (141, 300)]
            .into_iter()
            .map(|(start, len)| Group {
                start,
                time: 1 << 50,
                records: vec![1; len],
            })
            .collect();
        for group in &all {
            writer.push(group);
        }
        let (found, content) = writer.take().unwrap();
        assert_eq!(found, piece(100, 441));
        assert_eq!(groups(found, &content).unwrap(), all);
        assert!(groups(piece(100, 442), &content).is_err());
        assert!(groups(piece(99, 441), &content).is_err());
        assert!(groups(found, &content[..content.len() - 1]).is_err());
        assert!(writer.is_empty());
    }
}
