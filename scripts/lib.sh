# Shared by the scripts: where things are, search path, messages, timing of stages. Sourced.
# shellcheck shell=bash

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Absolute, since tests run in their crates' directories.
TARGET=$(realpath -m "${CARGO_TARGET_DIR:-target}")
TOOLS=$TARGET/tools
export CARGO_TARGET_DIR=$TARGET TARGET TOOLS

# Whole runs build from nothing, where incremental artefacts only cost time and room; `make quick`
# and cargo by hand build incrementally (profile.dev).
export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}

# Puts on the search path what shells may lack: rustup's, Go's and Debian's folders for programs. A
# Go that need.sh fetched comes first, since it did so for want of a new enough one.
find_tools() {
    local folder
    case ":$PATH:" in
        *":$TOOLS/go/bin:"*) ;;
        *) if [ -d "$TOOLS/go/bin" ]; then PATH=$TOOLS/go/bin:$PATH; fi ;;
    esac
    for folder in "${CARGO_HOME:-$HOME/.cargo}/bin" /usr/local/go/bin /usr/local/sbin /usr/sbin; do
        case ":$PATH:" in
            *":$folder:"*) ;;
            *) if [ -d "$folder" ]; then PATH=$PATH:$folder; fi ;;
        esac
    done
    export PATH
    hash -r
}
find_tools

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

# print_stages [NAME]: the seconds of all stages; with a name also kept in target/report, one run
# after the other, so that a stage that has become slower is seen.
print_stages() {
    STAGES+=("$(printf '%5d s  %s' "$SECONDS" "all")")
    echo "--- seconds per stage"
    printf '%s\n' "${STAGES[@]}"
    if [ $# -gt 0 ]; then
        mkdir -p "$TARGET/report"
        {
            echo "$(date -u +%FT%TZ) $(git describe --always --dirty 2>/dev/null || true)"
            printf '%s\n' "${STAGES[@]}"
        } >>"$TARGET/report/stages-$1.txt"
    fi
}
