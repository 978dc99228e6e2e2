//! Access paths from conditions of which any need be true: `a < 1 OR a > 9`,
//! `a = 1 OR b = 2`, `a <> 5`.
//!
//! Each arm, together with all the other conditions, says which part of an
//! index has its rows. Where every arm says so of one index the parts are one
//! path over several spans of it; where arms need different indexes the rows
//! are gathered by their primary keys ([`Access::Union`]).
//!
//! Invariants:
//! 1. A path serves one such condition; what others say is left to the filter,
//!    but for equalities that arms share.
//! 2. Spans are in no order and may overlap: which do is known only when their
//!    values are (`exec::keys`).
//!
//! Rejected: intersections of indexes (two conditions on one row are served
//! by the narrower index alone, or by one index of both columns).

use super::access::{Asked, MAX_KEYS, Path};
use super::facts::{Facts, Said, arms, facts_of_arm};
use super::index_order::constant_parts;
use super::pieces::Piece;
use super::{Access, cost};
use porpoise_rows::catalog::Index;
use std::collections::BTreeMap;

/// Rows of a union that are gathered of any table, however small.
const FEW: usize = 1_000;

/// What the arms so far leave of one index, or of one for each arm.
#[derive(Default)]
struct Pieces {
    /// Position of the index, and the piece; one an arm.
    of_arms: Vec<(usize, Piece)>,
    /// Keys of all of them.
    keys: usize,
}

impl Pieces {
    /// With the piece of one more arm, unless there is none or they are too many.
    fn with(&mut self, piece: Option<(usize, Piece)>) -> bool {
        let Some((position, piece)) = piece else {
            return false;
        };
        self.keys += piece.span.keys.len();
        self.of_arms.push((position, piece));
        self.keys <= MAX_KEYS
    }
}

impl Asked<'_> {
    /// The paths that conditions with several arms give, beside what the
    /// conditions together say.
    pub(super) fn either(&self, together: &[Facts<'_>]) -> Vec<Path> {
        let mut paths = Vec::new();
        for condition in self.conditions {
            let arms = arms(condition);
            if (2..=MAX_KEYS).contains(&arms.len()) {
                self.of_arms(&arms, together, &mut paths);
            }
        }
        paths
    }

    fn of_arms(&self, arms: &[Said<'_>], together: &[Facts<'_>], paths: &mut Vec<Path>) {
        let indexes = self.table.indexes.iter().enumerate();
        let usable = indexes.filter(|(position, index)| self.usable(*position, index));
        let mut alone: Vec<(usize, &Index, Pieces)> = usable
            .map(|(position, index)| (position, index, Pieces::default()))
            .collect();
        // Rows of a join's later tables are looked up by one index.
        let mut merged = (self.joined == 0).then(Pieces::default);
        for arm in arms {
            let facts = facts_of_arm(*arm, self.slot, together, self.joined);
            alone.retain_mut(|(position, index, pieces)| {
                let piece = self.piece(index, &facts, self.covers(*position));
                pieces.with(piece.map(|piece| (*position, piece)))
            });
            if let Some(pieces) = &mut merged
                && !pieces.with(self.narrowest(&facts))
            {
                merged = None;
            }
            if alone.is_empty() && merged.is_none() {
                return;
            }
        }
        if let (true, Some(pieces)) = (alone.is_empty(), merged) {
            paths.extend(self.by_several(pieces, together));
        }
        for (position, index, pieces) in alone {
            paths.extend(self.by_one(position, index, pieces, together));
        }
    }

    /// All arms by spans of one index.
    fn by_one(
        &self,
        position: usize,
        index: &Index,
        Pieces { of_arms, keys }: Pieces,
        together: &[Facts<'_>],
    ) -> Option<Path> {
        let pieces: Vec<Piece> = of_arms.into_iter().map(|(_, piece)| piece).collect();
        let whole = pieces.iter().all(|p| p.whole) && alike(&pieces);
        if index.using_hash && !whole {
            return None;
        }
        let mut order = match self.order {
            [] => Some(false),
            _ => self.order_of(position, index, constant_parts(index, together), together),
        };
        if pieces.iter().any(Piece::or_table) {
            order = order.filter(|_| self.order.is_empty());
        }
        if whole {
            order = self.order_of_whole_keys(order);
        }
        let rows = self.rows_of_all(pieces.iter().map(|p| (position, p)));
        let ordered = order.is_some();
        let access = access(position, pieces, whole, order == Some(true));
        let mut path = self.of_spans(position, access, ordered, (keys as f64, rows));
        if whole {
            path.entries = false;
            path.cost = rows * self.whole_key_cost(position);
        }
        Some(path)
    }

    /// Rows of all pieces.
    fn rows_of_all<'p>(&self, pieces: impl Iterator<Item = (usize, &'p Piece)>) -> f64 {
        let (mut equal, mut one_end, mut two_ends) = (0.0, 0.0, 0.0);
        for (position, piece) in pieces {
            let sum = match piece.bounded {
                0 => &mut equal,
                1 => &mut one_end,
                _ => &mut two_ends,
            };
            *sum += self.rows_of(position, piece);
        }
        let rows = self.rows();
        equal + rows * cost::of_ranges(one_end / rows, two_ends / rows)
    }

    /// Each arm by the index that serves it best.
    fn by_several(&self, Pieces { of_arms, keys }: Pieces, together: &[Facts<'_>]) -> Option<Path> {
        let rows = self.rows_of_all(of_arms.iter().map(|(position, piece)| (*position, piece)));
        let rows = rows.min(self.rows()).max(1.0);
        let primary = self.table.indexes.first()?;
        let by_key = self.order_of(0, primary, 0, together) == Some(false);
        let found = keys as f64 * cost::SEEK + rows * cost::ENTRY;
        let sort = cost::SORT * rows * rows.max(2.0).log2();
        let mut cost = found + sort + rows * cost::ROW_OF_ENTRY;
        // Where ranges with two ends turn out to be large, the table is read after all.
        if of_arms.iter().all(|(_, piece)| piece.bounded != 1) {
            cost = cost.min(self.whole(0, false, None).cost * 0.9);
        }
        let mut by_index: BTreeMap<usize, Vec<Piece>> = BTreeMap::new();
        for (position, piece) in of_arms {
            by_index.entry(position).or_default().push(piece);
        }
        let each = by_index.into_iter();
        let each = each.map(|(position, pieces)| access(position, pieces, false, false));
        Some(Path {
            access: Access::Union {
                arms: each.collect(),
                most: (self.rows() / 8.0) as usize + FEW,
            },
            ordered: self.order.is_empty() || by_key,
            entries: false,
            rows,
            cost,
            implied: Vec::new(),
        })
    }

    /// The index of which the facts leave least.
    fn narrowest(&self, facts: &[Facts<'_>]) -> Option<(usize, Piece)> {
        let indexes = self.table.indexes.iter().enumerate();
        let pieces = indexes.filter_map(|(position, index)| {
            // Entries of a hash index are in no order that ranges could use.
            let usable = self.usable(position, index) && !index.using_hash;
            let piece = self.piece(index, facts, false).filter(|_| usable)?;
            Some((position, piece))
        });
        let rows = |(position, piece): &(usize, Piece)| self.rows_of(*position, piece);
        pieces.min_by(|a, b| rows(a).total_cmp(&rows(b)))
    }
}

/// What leads to the rows of pieces of one index.
fn access(index: usize, pieces: Vec<Piece>, whole: bool, reverse: bool) -> Access {
    match alike(&pieces) {
        true => Access::Lookup {
            index,
            keys: pieces.into_iter().flat_map(|p| p.span.keys).collect(),
            whole,
            reverse,
        },
        false => Access::Range {
            index,
            spans: pieces.into_iter().map(|p| p.span).collect(),
            reverse,
        },
    }
}

/// Whether they are keys of so many parts, and no ranges.
fn alike(pieces: &[Piece]) -> bool {
    let equal = pieces.first().map_or(0, |p| p.equal);
    pieces.iter().all(|p| p.bounded == 0 && p.equal == equal)
}
