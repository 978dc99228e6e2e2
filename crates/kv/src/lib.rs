//! Placeholder for the room `kv`; filled by the commits that follow.
