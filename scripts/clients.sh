#!/usr/bin/env bash
# Runs the tests with real client drivers against the server of the test build, or against a peer:
# clients.sh [--all] [--peer mariadb|memcached]

. "$(dirname "$0")/lib.sh"

scripts/need.sh mariadb memcached go python node sysbench
if [[ " $* " == *" --all "* ]]; then scripts/need.sh java applications dumps mediawiki browser deploy; fi
find_tools
if [ $# -eq 0 ] || [ "$1" = --all ]; then cargo build --locked --bin porpoise; fi
exec "$TOOLS/venv/bin/python" tests/clients/run.py --binary "$TARGET/debug/porpoise" "$@"
