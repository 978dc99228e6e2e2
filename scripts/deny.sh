#!/usr/bin/env bash
# Checks licences, sources and security advisories of the dependencies, by deny.toml. Advisories are
# fetched; if that fails, the others are checked, and a line says so.

. "$(dirname "$0")/lib.sh"

deny=$TOOLS/cargo-deny/bin/cargo-deny
if [ ! -x "$deny" ]; then
    echo "dependencies: cargo-deny is not installed (make needs installs it); nothing is checked"
    exit 0
fi
if ! cargo fetch --locked --quiet; then
    echo "dependencies: the registry cannot be reached; nothing is checked"
    exit 0
fi
"$deny" --locked check bans licenses sources
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if "$deny" --locked fetch db >"$log" 2>&1; then
    "$deny" --locked check --disable-fetch advisories
else
    tail -n 1 "$log"
    echo "dependencies: advisories could not be fetched; they are not checked"
fi
