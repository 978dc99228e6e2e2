//! Placeholder for the room `client`; filled by the commits that follow.
