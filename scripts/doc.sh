#!/usr/bin/env bash
# rustdoc over all crates; a warning (a link that leads nowhere) is an error.

. "$(dirname "$0")/lib.sh"

RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --workspace
