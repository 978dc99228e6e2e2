#!/usr/bin/env bash
# Builds the documentation of all crates, private items included, because its readers work on the
# code. A warning, for example of a broken link, is an error.

. "$(dirname "$0")/lib.sh"

RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" \
    cargo doc --locked --no-deps --workspace --document-private-items
