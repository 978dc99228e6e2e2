//! Placeholder for the room `rows`; filled by the commits that follow.
