//! Checks of privileges: what a statement needs, and GRANT, REVOKE and SHOW GRANTS.
//!
//! Accounts and grants are [`porpoise_access`]'s. Each session keeps the rights of its
//! own account and takes them again when the version has moved. GRANT, REVOKE and SHOW
//! GRANTS are [`grant`]'s; the privileges that a statement needs are [`checks`]'.
//!
//! Invariants:
//! 1. Every execution of a plan is checked against the rights of that moment, including
//!    executions of cached and prepared plans.
//! 2. An account without grants may connect, and nothing else.
//! 3. For an account with all privileges on everything a statement costs one comparison.
//!
//! The columns that a plan uses are recorded while it is bound ([`crate::plan::uses`]), so that
//! privileges on columns are checked without the statement's text. Visibility of objects is
//! [`visible`]'s, partial revokes are [`partial`]'s.

mod checks;
mod columns;
pub mod grant;
pub mod kinds;
mod partial;
mod requirements;
mod visible;
