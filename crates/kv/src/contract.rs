//! The contract suite: one function a guarantee, run unchanged on every engine.
