//! Placeholder for the room `kv_mem`; filled by the commits that follow.
