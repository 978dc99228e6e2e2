#!/usr/bin/env bash
# The engine's own code under schedules that a seed chooses: built with `--cfg shuttle`, in a target
# directory of its own. SCHEDULES says how many schedules of each kind a model runs, SCHEDULE_SEED
# where to begin; an argument chooses models by name.

. "$(dirname "$0")/lib.sh"

export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/schedules"
export RUSTFLAGS="${RUSTFLAGS:-} --cfg shuttle"
cargo test --locked -p porpoise-base -p porpoise-kv-mem --lib "schedules::${1:-}"
