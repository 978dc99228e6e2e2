#!/usr/bin/env bash
# `make soak`: the long tests named in tests/soak.list, each timed, optimised build.

. "$(dirname "$0")/lib.sh"

scripts/need.sh rust cc base mariadb memcached netcat strace go python cargo-deny valgrind debootstrap
find_tools
tests=$(cargo xtask soak)
if [ -z "$tests" ]; then
    echo "tests/soak.list names no test: 0 long tests passed"
    exit 0
fi

# The server that the tests start, from the same build as they.
stage "build" cargo build --locked --release -p porpoise

# A name that fits no test would pass by running nothing.
run_one() {
    local log status=0
    log=$(mktemp)
    cargo test --locked --release -p "$1" -- --ignored --exact --nocapture "$2" 2>&1 | tee "$log" || status=$?
    if [ "$status" -eq 0 ] && ! grep -q '^test result: ok. 1 passed' "$log"; then
        echo "no test of $1 is called $2" >&2
        status=1
    fi
    rm -f "$log"
    return "$status"
}

# With all interleavings of the models under loom.
SCHEDULES="${SCHEDULES:-20000}" LOOM_MAX_PREEMPTIONS=20 stage "schedules" scripts/schedules.sh

count=0
while read -r package test; do
    stage "$package $test" run_one "$package" "$test" </dev/null
    count=$((count + 1))
done <<<"$tests"

# The crates with unsafe code on the way of a row, and the engine's simulated lives, under
# AddressSanitizer (leaks are errors, too): a build of its own, for all objects must be
# instrumented. The flag is unstable, the runtime comes with the stable toolchain.
sanitized() {
    RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address" CARGO_TARGET_DIR=target/asan \
        cargo test --locked --target "$(rustc -vV | sed -n 's/^host: //p')" \
        -p porpoise-kv-mem -p porpoise-sim -p porpoise-base
}
stage "AddressSanitizer" sanitized

# The engine's tests with real threads under ThreadSanitizer. The standard library is built with it,
# so that its locks and reference counts are seen. Fences are not understood: scripts/tsan.supp says
# where that gives false reports. What rests on fences is checked by the models of `schedules.sh`.
threads_sanitized() {
    rustup component add rust-src
    RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=thread" CARGO_TARGET_DIR=target/tsan \
        TSAN_OPTIONS="suppressions=$PWD/scripts/tsan.supp halt_on_error=1" \
        cargo test --locked -Zbuild-std --target "$(rustc -vV | sed -n 's/^host: //p')" \
        -p porpoise-kv-mem
}
stage "ThreadSanitizer" threads_sanitized

stage "dependencies" scripts/deny.sh
stage "minimal root" scripts/minimal.sh

print_stages
echo "$count long tests passed"
