#!/usr/bin/env bash
# rustdoc over all crates, private items included, since its readers work on the code; a warning
# (a link that leads nowhere) is an error.

. "$(dirname "$0")/lib.sh"

RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" \
    cargo doc --locked --no-deps --workspace --document-private-items
