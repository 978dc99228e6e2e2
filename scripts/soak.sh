#!/usr/bin/env bash
# `make soak`: the long tests named in tests/soak.list, each timed, optimised build.

. "$(dirname "$0")/lib.sh"

scripts/need.sh rust cc mariadb memcached netcat strace go python
find_tools
count=0
while read -r package test; do
    stage "$package $test" cargo test --locked --release -p "$package" -- --ignored --exact --nocapture "$test"
    count=$((count + 1))
done < <(cargo xtask soak)
if [ "$count" -eq 0 ]; then
    echo "tests/soak.list names no test"
    exit 0
fi
print_stages
echo "$count long tests passed"
