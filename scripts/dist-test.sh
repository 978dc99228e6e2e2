#!/usr/bin/env bash
# Installs what `make dist` has made in a fresh minimal Debian, and uses it as a new user would: the package
# and its removal, the server under its account with a notification to the service manager, both shells, the
# demonstration, and the tarball. Needs root and a Debian mirror (MIRROR). ROOT=DIR uses a root that is there.

. "$(dirname "$0")/lib.sh"

MIRROR=${MIRROR:-http://deb.debian.org/debian}
DIST=$TARGET/dist
ROOT=${ROOT:-$TARGET/dist-root}

if [ "$(id -u)" -ne 0 ]; then
    echo "fresh root: needs root for chroot; left out"
    exit 0
fi
if [ ! -x "$ROOT/usr/bin/dpkg" ]; then
    scripts/need.sh debootstrap
    rm -rf "$ROOT"
    mkdir -p "$ROOT"
    debootstrap --variant=minbase --include=adduser,logrotate bookworm "$ROOT" "$MIRROR"
fi
# What an earlier run has left: the data outlive the package.
rm -rf "$ROOT/opt/dist" "$ROOT/opt/alone" "$ROOT/var/lib/porpoise" "$ROOT/var/log/porpoise"
mkdir -p "$ROOT/opt/dist"
cp "$DIST"/*.deb "$DIST"/*.tar.gz "$ROOT/opt/dist/"
cp scripts/dist-steps.sh "$ROOT/opt/dist/"
cp scripts/dist-notify.py "$ROOT/opt/dist/"

# A service manager that notes the messages of the server.
rm -f "$ROOT/opt/dist/notify"
python3 scripts/dist-notify.py "$ROOT/opt/dist/notify" "$ROOT/opt/dist/notified" &
notify=$!
trap 'kill "$notify" 2>/dev/null || true' EXIT

# In namespaces of its own, so that no mount, process or listener outlives the run.
unshare --mount --pid --net --fork --kill-child bash -euc '
    root=$1
    mount --make-rprivate /
    ip link set lo up 2>/dev/null || ifconfig lo up
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    exec chroot "$root" /usr/bin/env -i LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        bash -eu /opt/dist/dist-steps.sh
' dist "$ROOT"
echo "the release installs, runs and is removed: 1 passed, 0 failed"
