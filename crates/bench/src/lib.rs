//! Placeholder for the room `bench`; filled by the commits that follow.
