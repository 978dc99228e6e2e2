#!/usr/bin/env bash
# `make test` on a minimal Debian: a root made by debootstrap with git, make and the Rust toolchain
# only, in which the run has to install everything else. Needs root and a Debian mirror (MIRROR).
# The clone is of the last commit; its build is kept in target/minimal until the next run.

. "$(dirname "$0")/lib.sh"

MIRROR=${MIRROR:-http://deb.debian.org/debian}
ROOT=$TARGET/minimal/root
RUSTUP=${RUSTUP_HOME:-$HOME/.rustup}
CARGO=${CARGO_HOME:-$HOME/.cargo}

if [ "$(id -u)" -ne 0 ]; then
    echo "minimal root: needs root for chroot; left out"
    exit 0
fi
rm -rf "$ROOT"
mkdir -p "$ROOT"
debootstrap --variant=minbase --include=git,make,ca-certificates bookworm "$ROOT" "$MIRROR"

# What rustup installs, and the registry's cache, so that nothing is downloaded twice.
mkdir -p "$ROOT/root" "$ROOT/work"
cp -a "$RUSTUP" "$ROOT/root/.rustup"
cp -a "$CARGO" "$ROOT/root/.cargo"
for file in resolv.conf hosts; do cp "/etc/$file" "$ROOT/etc/$file"; done
if [ -d /etc/apt/apt.conf.d ]; then cp -a /etc/apt/apt.conf.d/. "$ROOT/etc/apt/apt.conf.d/"; fi
git clone --quiet --no-hardlinks . "$ROOT/work/porpoise"

# Namespaces of its own: the mounts go with them, and no process outlives the run. `/` is a plain
# directory there, which no mount table lists.
exec unshare --mount --pid --fork --kill-child bash -euc '
    mount --make-rprivate /
    mount -t proc proc "$1/proc"
    mount --rbind /dev "$1/dev"
    mount --rbind /sys "$1/sys"
    exec chroot "$1" /usr/bin/env -i HOME=/root TERM=dumb LANG=C.UTF-8 \
        PATH=/root/.cargo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        make -C /work/porpoise test
' minimal "$ROOT"
