//! Placeholder for the room `sim`; filled by the commits that follow.
