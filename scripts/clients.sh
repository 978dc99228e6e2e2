#!/usr/bin/env bash
# Runs the tests with real client drivers against the server of the test build, or against a peer:
# clients.sh [--all] [--peer mariadb|memcached]

. "$(dirname "$0")/lib.sh"

scripts/need.sh mariadb memcached go python node sysbench
if [[ " $* " == *" --all "* ]]; then scripts/need.sh java applications dumps mediawiki browser deploy; fi
find_tools
if [ $# -eq 0 ] || [ "$1" = --all ]; then cargo build --locked --bin porpoise; fi
# The Python package of the native protocol, from the path as a user installs it; with the maturin of the requirements.
if [ $# -eq 0 ] || [ "$1" = --all ]; then
    CARGO_TARGET_DIR=$TARGET/python PATH=$TOOLS/venv/bin:$PATH "$TOOLS/venv/bin/pip" install --quiet --no-deps --no-build-isolation \
        --disable-pip-version-check --config-settings=build-args=--locked clients/python
fi
exec "$TOOLS/venv/bin/python" tests/clients/run.py --binary "$TARGET/debug/porpoise" "$@"
