//! Placeholder for the room `wire`; filled by the commits that follow.
