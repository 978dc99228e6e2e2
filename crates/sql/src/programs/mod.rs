//! Stored programs: procedures, functions, and the bodies of triggers and events.
//!
//! [`compile`] turns the syntax tree of a body into a flat list of [`program::Instruction`]s, which
//! is kept by the session for a version of the definition. [`frame`] has what one execution owns:
//! values of variables, open cursors, active handlers and the diagnostics area. The instructions
//! are executed by the session (`session/programs.rs`), because statements need its transaction and
//! its plans.
//!
//! ```text
//! BEGIN                                   scope 0
//!   DECLARE n INT DEFAULT 3;              0  Assign n <- 3
//!   DECLARE EXIT HANDLER FOR 1062         1  Jump 4
//!     SET n = -1;                         2  Assign n <- -1
//!                                         3  HandlerEnd  (to 8)
//!   WHILE n > 0 DO                        4  JumpUnless n > 0, 8         scope 1: the handler
//!     INSERT INTO t VALUES (n);           5  Sql INSERT INTO t VALUES (?)
//!     SET n = n - 1;                      6  Assign n <- n - 1
//!   END WHILE;                            7  Jump 4
//! END                                     8
//! ```
//!
//! Invariants:
//! 1. Which handlers may catch a condition depends only on the instruction that raised it: each has
//!    a scope, whose parent is that of the enclosing block. The parent of a scope inside a
//!    handler's body skips the block that declares the handler (manual, "Scope Rules for
//!    Handlers"). So nothing is pushed or popped when blocks are entered or left.
//! 2. A variable has a slot of its own in the frame; a statement receives those it uses as
//!    parameters of their declared types, so that its plan is made once.
//!
//! Rejected: walking the syntax tree, whose nodes borrow from the text and which would need a stack
//! of block entries for LEAVE, ITERATE and handlers.

pub(crate) mod compile;
pub(crate) mod condition;
pub(crate) mod frame;
pub(crate) mod program;
pub(crate) mod restrict;
