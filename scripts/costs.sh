#!/usr/bin/env bash
# Counts the instructions of the main paths in the test build and compares them with
# tests/costs/reference.tsv; `--accept` writes that file. See tests/costs/measure.py.

. "$(dirname "$0")/lib.sh"

if ! command -v callgrind_control >/dev/null; then
    echo "costs: valgrind is not installed (make needs installs it); instructions are not counted"
    exit 0
fi
scripts/need.sh python
cargo build --locked --bin porpoise
exec "$TOOLS/venv/bin/python" tests/costs/measure.py --binary "$TARGET/debug/porpoise" \
    --out "$TARGET/report/costs.tsv" "$@"
