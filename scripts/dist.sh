#!/usr/bin/env bash
# `make dist`: the release in target/dist: a tarball with the stripped program, and a Debian package. The
# tarball also holds the Dockerfile that makes an image of it. BINARY=FILE packs a program that is built already.

. "$(dirname "$0")/lib.sh"

MOST_BYTES=40000000   # of the tarball

scripts/need.sh rust cc base
DIST=$TARGET/dist
VERSION=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
ARCHITECTURE=$(dpkg --print-architecture)
if [ -z "${BINARY:-}" ]; then
    cargo build --locked --release -p porpoise
    BINARY=$TARGET/release/porpoise
fi
# Equal inputs make equal archives.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

rm -rf "$DIST"
mkdir -p "$DIST"
strip --strip-all -o "$DIST/porpoise" "$BINARY"
"$DIST/porpoise" man --into "$DIST/man"

# The newest version of glibc's symbols that the program uses.
glibc=$(objdump -T "$DIST/porpoise" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
glibc=${glibc#GLIBC_}

# Copies the documents in the layout of the repository, so that their links work.
install_documents() {
    local folder=$1 file
    for file in README.md LICENSE ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md SECURITY.md docs/*.md docs/*/*.md; do
        install -D -m 644 "$file" "$folder/$file"
    done
}

make_tarball() {
    local name=porpoise-$VERSION
    local folder=$DIST/$name
    install -D -m 755 "$DIST/porpoise" "$folder/bin/porpoise"
    install_documents "$folder"
    install -D -m 644 -t "$folder/man/man1" "$DIST"/man/*.1
    install -D -m 644 -t "$folder/deploy" deploy/porpoise.toml deploy/porpoise.service deploy/porpoise.logrotate deploy/Dockerfile \
        deploy/grafana.json deploy/alerts.yml
    tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
        -C "$DIST" -czf "$DIST/$name-linux-$ARCHITECTURE.tar.gz" "$name"
    rm -rf "$folder"
}

make_package() {
    local folder=$DIST/package size
    install -D -m 755 "$DIST/porpoise" "$folder/usr/bin/porpoise"
    install -D -m 644 deploy/porpoise.service "$folder/lib/systemd/system/porpoise.service"
    install -D -m 644 deploy/porpoise.toml "$folder/etc/porpoise/porpoise.toml"
    install -D -m 644 deploy/porpoise.logrotate "$folder/etc/logrotate.d/porpoise"
    install_documents "$folder/usr/share/doc/porpoise"
    rm "$folder/usr/share/doc/porpoise/LICENSE"
    install -D -m 644 -t "$folder/usr/share/man/man1" "$DIST"/man/*.1
    gzip -9n "$folder"/usr/share/man/man1/*.1
    install -D -m 644 -t "$folder/usr/share/doc/porpoise" deploy/debian/copyright
    {
        printf 'porpoise (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n' "$VERSION"
        printf ' -- %s  %s\n' "$(sed -n 's/^Maintainer: //p' deploy/debian/control)" "$(date -uR -d "@$SOURCE_DATE_EPOCH")"
    } | gzip -9n >"$folder/usr/share/doc/porpoise/changelog.gz"
    install -D -m 755 -t "$folder/DEBIAN" deploy/debian/postinst deploy/debian/prerm deploy/debian/postrm
    printf '/etc/porpoise/porpoise.toml\n/etc/logrotate.d/porpoise\n' >"$folder/DEBIAN/conffiles"
    size=$(du -sk --exclude=DEBIAN "$folder" | cut -f 1)
    sed -e "s/@VERSION@/$VERSION/" -e "s/@ARCHITECTURE@/$ARCHITECTURE/" -e "s/@SIZE@/$size/" \
        -e "s/@GLIBC@/$glibc/" deploy/debian/control >"$folder/DEBIAN/control"
    dpkg-deb --root-owner-group -Zxz --build "$folder" "$DIST/porpoise_${VERSION}_$ARCHITECTURE.deb" >/dev/null
    rm -rf "$folder"
}

make_tarball
make_package
rm -r "$DIST/porpoise" "$DIST/man"
(cd "$DIST" && sha256sum -- *.tar.gz *.deb >SHA256SUMS)
for file in "$DIST"/*.tar.gz; do
    bytes=$(stat -c %s "$file")
    if [ "$bytes" -gt "$MOST_BYTES" ]; then die "$file has $bytes bytes, more than $MOST_BYTES"; fi
done
ls -l "$DIST"
