#!/usr/bin/env bash
# `make bench`: load generators against the server and its peers. Arguments go to `porpoise bench`.

. "$(dirname "$0")/lib.sh"

scripts/need.sh rust cc mariadb memcached
cargo build --release --locked -p porpoise
exec "$TARGET/release/porpoise" bench "$@"
