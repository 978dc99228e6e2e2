#!/usr/bin/env bash
# Instructions of the main paths in the test build, compared with tests/costs/reference.tsv;
# `--accept` writes the reference. See tests/costs/measure.py.

. "$(dirname "$0")/lib.sh"

if ! command -v callgrind_control >/dev/null; then
    echo "costs: valgrind is not installed (make needs installs it); instructions are not counted"
    exit 0
fi
scripts/need.sh python
cargo build --locked --bin porpoise
exec "$TOOLS/venv/bin/python" tests/costs/measure.py --binary "$TARGET/debug/porpoise" \
    --out "$TARGET/report/costs.tsv" "$@"
