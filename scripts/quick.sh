#!/usr/bin/env bash
# `make quick`: a quick check after a small edit, with less than `make test`: formatting, the rules, a
# type check of everything, and tests of the crates that differ from the branch main. These are the
# crate's unit tests, and the quick tests listed below that cover it.

. "$(dirname "$0")/lib.sh"

scripts/need.sh rust cc
export CARGO_INCREMENTAL=1

# Changed files: not committed, and committed since the branch left main.
changed() {
    local base
    base=$(git merge-base HEAD main 2>/dev/null || git rev-parse HEAD)
    git diff --name-only "$base"
    git ls-files --others --exclude-standard
}
files=$(changed | sort -u)

# did_change PREFIX...: whether the path of a changed file begins with one of the prefixes.
did_change() {
    local prefix
    for prefix in "$@"; do
        if grep -q "^$prefix" <<<"$files"; then return 0; fi
    done
    return 1
}

stage "formatting" cargo fmt --check
stage "rules" cargo xtask check
stage "type check" cargo check --locked --workspace

# Unit tests of the crates whose sources changed. The name of a package follows from its directory,
# except for the server's.
packages=()
for folder in $(sed -n 's,^crates/\([a-z_]*\)/src/.*,\1,p' <<<"$files" | sort -u); do
    if [ ! -d "crates/$folder" ]; then continue; fi
    case $folder in
        server) packages+=(-p porpoise) ;;
        *) packages+=(-p "porpoise-${folder//_/-}") ;;
    esac
done
if [ ${#packages[@]} -gt 0 ]; then
    stage "unit tests" cargo xtask test --lib "${packages[@]}"
fi
if did_change xtask/; then stage "tests of xtask" cargo test --locked -q -p xtask; fi

# Quick tests above the unit tests, by what they cover.
if did_change crates/sql crates/rows crates/access crates/types; then
    stage "SQL files" cargo test --locked -q -p porpoise-sql --test slt
fi
if did_change crates/kv/ crates/kv_mem/; then
    stage "engine contract" cargo test --locked -q -p porpoise-kv-mem --test integration contract::
fi
if did_change crates/wire/ tests/memcached/; then
    stage "codecs" cargo test --locked -q -p porpoise-wire
fi

print_stages quick
echo "all quick stages passed; make test runs the rest"
