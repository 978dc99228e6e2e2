//! Placeholder for the room `base`; filled by the commits that follow.
