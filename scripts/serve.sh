#!/usr/bin/env bash
# `make serve`: builds the server and runs it on ./data. Arguments go to `porpoise serve`.

. "$(dirname "$0")/lib.sh"

scripts/need.sh rust cc
cargo build --release --locked --bin porpoise
exec "$TARGET/release/porpoise" serve --pick-ports --data-dir data "$@"
