#!/usr/bin/env bash
# Runs the tests with real client drivers against the server of the test build, or against a peer:
# clients.sh [--peer mariadb|memcached]

. "$(dirname "$0")/lib.sh"

scripts/need.sh mariadb memcached go python
find_tools
if [ $# -eq 0 ]; then cargo build --locked -p porpoise; fi
exec "$TOOLS/venv/bin/python" tests/clients/run.py --binary "$TARGET/debug/porpoise" "$@"
