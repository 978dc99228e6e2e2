//! Placeholder for the room `kv_tikv`; filled by the commits that follow.
