#!/usr/bin/env bash
# `make test`: runs all checks that a change must pass, in stages, and stops at the first that fails.
# The tests and the server that they start have the same build profile.

. "$(dirname "$0")/lib.sh"

NEEDS=(rust cc base mariadb postgresql memcached netcat strace memcached-tools go python node sysbench)

stage "needs" scripts/need.sh "${NEEDS[@]}"
find_tools
stage "formatting" cargo fmt --check
stage "formatting of the Python package" cargo fmt --manifest-path clients/python/Cargo.toml --check
stage "rules" cargo xtask check
stage "dependencies" scripts/deny.sh
stage "clippy" cargo clippy --locked --workspace --all-targets -- -D warnings
stage "documentation" scripts/doc.sh
stage "build" cargo build --locked --workspace --all-targets
stage "tests" cargo xtask test
stage "schedules" scripts/schedules.sh
stage "clients" scripts/clients.sh
stage "costs" scripts/costs.sh

print_stages test
echo "all stages passed"
