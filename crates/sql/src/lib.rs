//! Placeholder for the room `sql`; filled by the commits that follow.
