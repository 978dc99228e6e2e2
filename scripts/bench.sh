#!/usr/bin/env bash
# `make bench`: load generators against the server and its peers. Arguments go to `porpoise bench`,
# which executes the program `porpoise-bench` beside it.

. "$(dirname "$0")/lib.sh"

# Only the peers that are requested; the option without a list means all of them.
needs=(rust cc)
for word in "$@"; do
    case $word in --start-peers) needs+=(mariadb postgresql memcached) ;; esac
    case $word in --start-peers=*mariadb*) needs+=(mariadb) ;; esac
    case $word in --start-peers=*postgres*) needs+=(postgresql) ;; esac
    case $word in --start-peers=*memcached*) needs+=(memcached) ;; esac
done
scripts/need.sh "${needs[@]}"
cargo build --release --locked --bin porpoise --bin porpoise-bench
exec "$TARGET/release/porpoise" bench "$@"
