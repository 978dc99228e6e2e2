#!/usr/bin/env bash
# Compiler of the workspace's crates for schedules.sh: rustc with `--cfg shuttle`. Cargo uses a
# workspace wrapper only for the workspace's crates, so dependencies need not be built again.
exec "$@" --cfg shuttle
