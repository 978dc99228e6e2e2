//! Privilege checks: requirements of statements, and GRANT, REVOKE and SHOW GRANTS.
//!
//! Accounts and grants are in [`porpoise_access`]. Each session caches the rights of its own
//! account and refreshes them when the version changes. GRANT, REVOKE and SHOW GRANTS are in
//! [`grant`], checks of statements in [`checks`].
//!
//! Invariants:
//! 1. Every execution of a plan is checked against the current rights, including executions of
//!    cached and prepared plans.
//! 2. An account without grants may connect, and nothing else.
//! 3. For an account with all privileges on `*.*`, the check of a statement costs one comparison.
//!
//! The columns that a plan uses are recorded during binding ([`porpoise_sql_plan::plan::uses`]), so
//! column privileges are checked without the statement's text. Visibility of objects is in
//! [`visible`], partial revokes are in [`partial`].

mod checks;
mod columns;
pub mod grant;
pub mod kinds;
mod partial;
mod requirements;
mod visible;
