//! Access control: accounts, privileges, and the tables in which they are stored.
//!
//! Both front ends (SQL and memcached) check against the same data:
//!
//! ```text
//!   login ----------> AccessControl::find(user, host) -> Account
//!   each execution -> AccessControl::version()            one atomic load
//!                     AccessControl::rights(account)      only after a change
//!   GRANT, ALTER USER -> AccessControl::change(|data| ...)  write, then reload
//! ```
//!
//! * [`AccessControl`]: accounts and grants in memory, with one version number.
//! * [`Account`]: a user name, a host pattern, and the credentials.
//! * [`Privileges`], [`Grant`], [`ColumnGrant`]: sets of privileges, and grants of them.
//! * [`Attributes`]: TLS requirements, resource limits and password policy of an account.
//! * [`RoleEdge`], [`AuthId`]: roles, granted to accounts and to each other.
//! * [`LoginGuard`], [`Usage`]: counters of failed logins and of resources used; not durable.
//! * [`Restrictions`]: databases on which global privileges do not hold.
//! * [`Rights`]: the effective privileges of one account.
//! * [`ndbmemcache`]: the mapping of memcached keys to tables, and its changes.
//! * [`administration`]: the privilege that a change of the server's configuration tables requires.
//!
//! Invariants:
//! 1. An account without grants may connect but do nothing else.
//! 2. A change is durable before it takes effect and before it is acknowledged.
//! 3. Changes are serialized: the data that a change was computed from is the data
//!    that it replaces.
//!
//! This crate contains no SQL parsing and no protocol encoding.

#![forbid(unsafe_code)]

mod account;
mod account_table;
mod attributes;
mod auth_id;
mod column_grants;
mod control;
pub mod event_runs;
mod grant_table;
mod guard;
mod history;
mod login;
pub mod ndbmemcache;
mod pattern;
pub mod persisted;
mod privileges;
mod restrictions;
mod rights;
mod role_graph;
mod roles;
mod routine_grants;
mod system_table;
mod system_tables;
mod usage;
mod user_attributes;
mod verifier_cache;

pub use account::{
    Account, DEFAULT_PLUGIN, NATIVE_PLUGIN, UNUSABLE_SECRET, hash_password, verify_password,
};
pub use attributes::{Attributes, Limits, PasswordPolicy, Require, TlsPeer};
pub use auth_id::AuthId;
pub use column_grants::{ColumnGrant, ColumnRights};
pub use control::{AccessControl, AccessData, Change, Rename};
pub use guard::{DelayPolicy, LoginGuard, TemporaryLock};
pub use history::{OldPassword, ReusePolicy};
pub use login::{Admission, Denial, LoginError, LoginPolicy, PasswordProof, access_denied};
pub use pattern::{is_system_schema, literal};
pub use porpoise_rows::{Error, Result};
pub use privileges::{NAMES, Privileges};
pub use restrictions::Restrictions;
pub use rights::{Grant, Rights};
pub use roles::{DefaultRole, RoleEdge};
pub use routine_grants::{routine_of_place, routine_place};
pub use system_tables::{
    Administration, administration, is_account_table, is_system_table, is_unlisted_table,
};
pub use usage::{Exceeded, Usage};
pub use verifier_cache::{Verifier, VerifierCache};
