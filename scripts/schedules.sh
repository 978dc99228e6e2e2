#!/usr/bin/env bash
# The engine's own code under schedules that a seed chooses: the workspace's crates are built with
# `--cfg shuttle`, beside what the other stages built. SCHEDULES says how many schedules of each
# kind a model runs, SCHEDULE_SEED where to begin; an argument chooses models by name.

. "$(dirname "$0")/lib.sh"

export RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/rustc-shuttle.sh
models=(cargo test --locked -p porpoise-base -p porpoise-kv-mem --lib "schedules::${1:-}" --)
count=$("${models[@]}" --list | grep -c ': test$' || true)
if [ "$count" -eq 0 ]; then die "schedules: no model has this name"; fi
exec "${models[@]}"
