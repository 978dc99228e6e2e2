//! The directory of an engine's spaces: latch-free look-up by id.
//!
//! Invariants:
//! 1. Ids are given out once, in ascending order; an entry of the directory is set once and never moves,
//!    so that readers need no latch.
//! 2. A dropped space keeps its entry, emptied, with `is_dropped` set. The flag is set under the sequencer,
//!    so that every later commit sees it.

use crate::index::Index;
use porpoise_base::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use porpoise_kv::{Error, Result, SpaceDurability, SpaceId, SpaceSpec};
use std::sync::OnceLock;

const PAGE: usize = 4096;
const PAGES: usize = 4096;

/// One space.
pub(crate) struct Space {
    pub(crate) id: SpaceId,
    pub(crate) spec: SpaceSpec,
    pub(crate) index: Index,
    /// The newest commit that wrote to it.
    pub(crate) last_commit: AtomicU64,
    /// Bytes of its records; see [`crate::store`]. In the cache line of `last_commit`, which each
    /// commit writes anyway.
    pub(crate) bytes: AtomicI64,
    is_dropped: AtomicBool,
}

impl Space {
    fn new(id: SpaceId, spec: SpaceSpec) -> Space {
        Space {
            id,
            index: Index::new(spec.point_lookups),
            spec,
            last_commit: AtomicU64::new(0),
            bytes: AtomicI64::new(0),
            is_dropped: AtomicBool::new(false),
        }
    }

    pub(crate) fn is_logged(&self) -> bool {
        self.spec.durability == SpaceDurability::Server
    }

    /// Accounted bytes of its records.
    pub(crate) fn live_bytes(&self) -> usize {
        usize::try_from(self.bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.is_dropped.load(Ordering::Acquire)
    }

    /// Marks the space as dropped. Returns true only for the first call.
    pub(crate) fn mark_dropped(&self) -> bool {
        !self.is_dropped.swap(true, Ordering::AcqRel)
    }
}

type Page = Box<[OnceLock<Box<Space>>]>;

/// All spaces.
pub(crate) struct Spaces {
    pages: Box<[OnceLock<Page>]>,
}

impl Spaces {
    /// Creates a directory with the catalog's spaces.
    pub(crate) fn new() -> Spaces {
        let spaces = Spaces {
            pages: (0..PAGES).map(|_| OnceLock::new()).collect(),
        };
        for id in 0..SpaceId::FIRST_FREE.0 {
            let spec = SpaceSpec {
                point_lookups: true,
                ..SpaceSpec::default()
            };
            // The first page always has room.
            let _ = spaces.add(SpaceId(id), spec);
        }
        spaces
    }

    /// Adds a space. Returns false if there are too many, or the id is in use.
    pub(crate) fn add(&self, id: SpaceId, spec: SpaceSpec) -> bool {
        let Ok(n) = usize::try_from(id.0) else {
            return false;
        };
        let Some(page) = self.pages.get(n / PAGE) else {
            return false;
        };
        let page = page.get_or_init(|| (0..PAGE).map(|_| OnceLock::new()).collect());
        page.get(n % PAGE)
            .is_some_and(|entry| entry.set(Box::new(Space::new(id, spec))).is_ok())
    }

    /// Largest id that the directory has an entry for.
    pub(crate) fn max_id() -> u64 {
        (PAGE * PAGES) as u64 - 1
    }

    /// Returns a space, dropped or not.
    pub(crate) fn find(&self, id: SpaceId) -> Option<&Space> {
        let n = usize::try_from(id.0).ok()?;
        self.pages
            .get(n / PAGE)?
            .get()?
            .get(n % PAGE)?
            .get()
            .map(|space| &**space)
    }

    /// Returns a space that exists and was not dropped.
    pub(crate) fn get(&self, id: SpaceId) -> Result<&Space> {
        match self.find(id) {
            Some(space) if !space.is_dropped() => Ok(space),
            _ => Err(Error::NoSuchSpace(id)),
        }
    }

    /// Iterates over the spaces that exist, in order of ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Space> {
        self.pages
            .iter()
            .filter_map(OnceLock::get)
            .flatten()
            .filter_map(|entry| entry.get().map(|space| &**space))
            .filter(|space| !space.is_dropped())
    }
}
