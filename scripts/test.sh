#!/usr/bin/env bash
# `make test`: everything that is checked before a change lands, in stages, stopping at the first
# that fails. One build profile serves the tests and the server that they start.

. "$(dirname "$0")/lib.sh"

NEEDS=(rust cc mariadb postgresql memcached netcat strace memcached-tools go python node sysbench)

stage "needs" scripts/need.sh "${NEEDS[@]}"
find_tools
stage "formatting" cargo fmt --check
stage "house rules" cargo xtask check
stage "clippy" cargo clippy --locked --workspace --all-targets -- -D warnings
stage "build" cargo build --locked --workspace --all-targets
stage "tests" cargo test --locked --workspace
stage "schedules" scripts/schedules.sh
stage "clients" scripts/clients.sh

print_stages
echo "all stages passed"
