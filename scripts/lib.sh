# Shared by the scripts: where things are, search path, messages, timing of stages. Sourced.
# shellcheck shell=bash

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

TARGET=${CARGO_TARGET_DIR:-$PWD/target}
TOOLS=$TARGET/tools
export TARGET TOOLS

# Where rustup, Go and Debian's servers put their programs, for shells whose search path lacks them.
for folder in "${CARGO_HOME:-$HOME/.cargo}/bin" "$TOOLS/go/bin" /usr/local/go/bin /usr/local/sbin /usr/sbin; do
    case ":$PATH:" in
        *":$folder:"*) ;;
        *) [ -d "$folder" ] && PATH=$PATH:$folder ;;
    esac
done
export PATH

die() {
    echo "$*" >&2
    exit 1
}

STAGES=()

# stage NAME COMMAND...: runs a command, notes its seconds, and stops everything if it fails.
stage() {
    local name=$1 start=$SECONDS status=0
    shift
    echo "=== $name"
    "$@" || status=$?
    STAGES+=("$(printf '%5d s  %s' $((SECONDS - start)) "$name")")
    if [ "$status" -ne 0 ]; then
        print_stages
        echo "FAILED in stage: $name (exit status $status)" >&2
        exit 1
    fi
}

print_stages() {
    echo "--- seconds per stage"
    printf '%s\n' "${STAGES[@]}"
    printf '%5d s  %s\n' "$SECONDS" "all"
}
