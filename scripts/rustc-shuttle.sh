#!/usr/bin/env bash
# Compiler of the workspace's crates for schedules.sh: RUSTC with `--cfg shuttle`. As cargo's
# workspace wrapper it leaves dependencies as the other stages built them.
exec "$@" --cfg shuttle
