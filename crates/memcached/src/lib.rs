//! The memcached protocol over rows of tables.
//!
//! * [`mapping`]: the tables of `ndbmemcache`; resolves a key to its container and policy.
//! * [`container`]: items as rows of tables.
//! * [`connection`]: a connection and its dialects.
//! * [`context`]: state shared by the commands of a connection; accounts and privileges.
//! * [`read`]: reads of any number of keys; [`commands`]: changes of one item, `flush_all`.
//! * [`item_metadata`]: properties of items that have no column; [`cache`]: items without rows.
//! * [`listener`]: a listener; [`reaper`]: deletes expired rows; [`explain`]: SHOW MEMCACHED KEY.
//! * [`command_statistics`]: statistics of commands by prefix; [`sampled_command`]: times and hot keys.
//! * [`counters`]: metric counters; [`reply_sink`]: a connection's output, provided by the server.
//!
//! Sockets, event loops and TLS are the server's, codecs are those of `porpoise_wire`. Every
//! command is an autocommit transaction on `porpoise_rows`; SQL is not involved. Foreign keys are
//! always checked (transactions.md, rule 16).

pub mod cache;
pub mod command_statistics;
pub(crate) mod commands;
pub(crate) mod connection;
pub mod container;
pub(crate) mod context;
pub mod counters;
pub(crate) mod explain;
pub(crate) mod item_metadata;
pub(crate) mod listener;
pub mod mapping;
pub(crate) mod read;
pub mod reaper;
pub mod reply_sink;
pub(crate) mod sampled_command;

pub use cache::Cache;
pub use connection::{Client, Connection, ParseProgress, tls_required};
pub use context::identity::Authentication;
pub use listener::{ListenerSettings, Memcached, OpenError};
pub use reaper::Reaper;
pub use reply_sink::{Disconnected, Next, ReplySink};

/// The text that `version` reports: first the memcached version whose behaviour is implemented, for
/// clients that derive supported commands from it, then the server's own.
pub(crate) const VERSION: &str = concat!("1.6.18-porpoise-", env!("CARGO_PKG_VERSION"));
