#!/usr/bin/env bash
# `make soak`: runs the long tests listed in tests/soak.list in the optimised build, and prints the
# time of each.

. "$(dirname "$0")/lib.sh"

scripts/need.sh rust cc base mariadb memcached netcat strace go python moto cargo-deny valgrind debootstrap
find_tools
export MOTO_PYTHON=$TOOLS/moto/bin/python3
tests=$(cargo xtask soak)
if [ -z "$tests" ]; then
    echo "tests/soak.list names no test: 0 long tests passed"
    exit 0
fi

# The server that the tests start, in the same build profile as the tests.
stage "build" cargo build --locked --release -p porpoise

# run_one PACKAGE TEST: runs a test. Fails if no test has this name: cargo would succeed without
# running any.
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

# The preemption bound of 20 lets loom run all interleavings of the models.
SCHEDULES="${SCHEDULES:-20000}" LOOM_MAX_PREEMPTIONS=20 stage "schedules" scripts/schedules.sh

count=0
while read -r package test; do
    stage "$package $test" run_one "$package" "$test" </dev/null
    count=$((count + 1))
done <<<"$tests"

# Tests of the crates with unsafe code, and of the simulation, under AddressSanitizer; leaks are
# errors, too. It needs a build of its own, because all objects must be instrumented. The compiler's
# flag is unstable (RUSTC_BOOTSTRAP), but the stable toolchain includes the runtime.
sanitized() {
    RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address" CARGO_TARGET_DIR=target/asan \
        cargo test --locked --target "$(rustc -vV | sed -n 's/^host: //p')" \
        -p porpoise-kv-mem -p porpoise-sim -p porpoise-base
}
stage "AddressSanitizer" sanitized

# The engine's tests with real threads under ThreadSanitizer. The standard library is built with it,
# too, so that its locks and reference counts are instrumented. ThreadSanitizer does not support
# fences: scripts/tsan.supp suppresses the false reports. Code that relies on fences is checked by the
# models of schedules.sh.
threads_sanitized() {
    rustup component add rust-src
    RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=thread" CARGO_TARGET_DIR=target/tsan \
        TSAN_OPTIONS="suppressions=$PWD/scripts/tsan.supp halt_on_error=1" \
        cargo test --locked -Zbuild-std --target "$(rustc -vV | sed -n 's/^host: //p')" \
        -p porpoise-kv-mem
}
stage "ThreadSanitizer" threads_sanitized

stage "dependencies" scripts/deny.sh
stage "release" scripts/dist.sh
stage "release in a fresh root" scripts/dist-test.sh
stage "minimal root" scripts/minimal.sh

print_stages
echo "$count long tests passed"
