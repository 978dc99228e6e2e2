//! Placeholder for the room `types`; filled by the commits that follow.
