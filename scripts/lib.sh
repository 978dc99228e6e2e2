# Shared by the scripts, which source this file: directories, search path, messages, stages with times.
# shellcheck shell=bash

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Absolute, since tests run in their crates' directories.
TARGET=$(realpath -m "${CARGO_TARGET_DIR:-target}")
TOOLS=$TARGET/tools
export CARGO_TARGET_DIR=$TARGET TARGET TOOLS

# Whole runs build everything, so incremental artefacts would only cost time and space. `make quick`
# and direct calls of cargo build incrementally (profile.dev).
export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}

# Adds the directories for programs of rustup, Go and Debian to the search path, which may lack them.
# A Go that need.sh installed comes first, because the installed one is older than required.
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

# stage NAME COMMAND...: runs a command, records its time in seconds, and ends the script if it fails.
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

# print_stages [NAME]: prints the seconds of all stages. With a name it also appends them to a file in
# target/report, so that the times of several runs can be compared.
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
