//! Flags of a result's column, as MySQL's protocol numbers them.

/// NOT NULL.
pub const NOT_NULL: u16 = 1;
/// Part of the primary key.
pub const PRI_KEY: u16 = 2;
/// Single column of a unique key.
pub const UNIQUE_KEY: u16 = 4;
/// First column of a key that is not unique.
pub const MULTIPLE_KEY: u16 = 8;
/// BLOB or TEXT.
pub const BLOB: u16 = 16;
/// Unsigned.
pub const UNSIGNED: u16 = 32;
/// Filled with zeros to its width.
pub const ZEROFILL: u16 = 64;
/// Binary comparison.
pub const BINARY: u16 = 128;
/// An ENUM.
pub const ENUM: u16 = 256;
/// AUTO_INCREMENT.
pub const AUTO_INCREMENT: u16 = 512;
/// A TIMESTAMP with automatic values.
pub const TIMESTAMP: u16 = 1024;
/// A SET.
pub const SET: u16 = 2048;
/// Without a default value.
pub const NO_DEFAULT_VALUE: u16 = 4096;
/// ON UPDATE CURRENT_TIMESTAMP.
pub const ON_UPDATE_NOW: u16 = 8192;
/// Part of some key.
pub const PART_KEY: u16 = 16384;
