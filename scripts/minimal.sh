#!/usr/bin/env bash
# Runs `make test` on a minimal Debian: a root directory made by debootstrap with git, make and the
# Rust toolchain only, in which the run has to install everything else. Needs root and a Debian mirror
# (MIRROR). Tests the last commit. Arguments replace `make test`.

. "$(dirname "$0")/lib.sh"

MIRROR=${MIRROR:-http://deb.debian.org/debian}
ROOT=$TARGET/minimal/root
CARGO=${CARGO_HOME:-$HOME/.cargo}

if [ "$(id -u)" -ne 0 ]; then
    echo "minimal root: needs root for chroot; left out"
    exit 0
fi
rm -rf "$ROOT"
mkdir -p "$ROOT"
debootstrap --variant=minbase --include=git,make,ca-certificates bookworm "$ROOT" "$MIRROR"

# The toolchain, and the registry with its settings, so that nothing is downloaded twice.
mkdir -p "$ROOT/opt/porpoise/home/.cargo"
cp -a "$(rustc --print sysroot)" "$ROOT/opt/porpoise/toolchain"
for part in registry config.toml; do
    if [ -e "$CARGO/$part" ]; then cp -a "$CARGO/$part" "$ROOT/opt/porpoise/home/.cargo/"; fi
done
for file in resolv.conf hosts; do cp "/etc/$file" "$ROOT/etc/$file"; done
if [ -d /etc/apt/apt.conf.d ]; then cp -a /etc/apt/apt.conf.d/. "$ROOT/etc/apt/apt.conf.d/"; fi
git clone --quiet --no-hardlinks . "$ROOT/opt/porpoise/clone"

# In namespaces of its own, the mounts end with the run, and no process outlives it. `/` is then a
# plain directory, which is not in the mount table.
if [ $# -eq 0 ]; then set -- make test; fi
exec unshare --mount --pid --fork --kill-child bash -euc '
    root=$1
    shift
    mount --make-rprivate /
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount --rbind /sys "$root/sys"
    exec chroot "$root" /usr/bin/env --chdir=/opt/porpoise/clone -i HOME=/opt/porpoise/home \
        LANG=C.UTF-8 PATH=/opt/porpoise/toolchain/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        "$@"
' minimal "$ROOT" "$@"
