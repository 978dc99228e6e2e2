#!/usr/bin/env bash
# Runs models of the engine's code under thread schedules chosen by a seed. The workspace's crates are
# built with `--cfg shuttle`, in addition to the build of the other stages. SCHEDULES is the number of
# schedules of each kind, SCHEDULE_SEED the first seed; an argument selects models by name.

. "$(dirname "$0")/lib.sh"

export RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/rustc-shuttle.sh
models=(cargo test --locked -p porpoise-base -p porpoise-kv-mem --lib "schedules::${1:-}" --)
count=$("${models[@]}" --list | grep -c ': test$' || true)
if [ "$count" -eq 0 ]; then die "schedules: no model has this name"; fi
exec "${models[@]}"
