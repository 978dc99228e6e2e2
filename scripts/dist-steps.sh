# The steps of dist-test.sh, run inside of the fresh root.
# shellcheck shell=bash

fail() {
    echo "FAILED: $*" >&2
    tail -n 20 /var/log/porpoise/test.log >&2 2>/dev/null || true
    exit 1
}

# expect TEXT COMMAND...: the command's output contains the text.
expect() {
    local text=$1 output
    shift
    output=$("$@" 2>&1) || fail "$* ended with an error: $output"
    case $output in
        *"$text"*) ;;
        *) fail "$* printed: $output" ;;
    esac
}

# until_true COMMAND...: waits half a minute at most.
until_true() {
    local n
    for n in $(seq 300); do
        if "$@" 2>/dev/null; then return; fi
        sleep 0.1
    done
    fail "$* did not become true ($n)"
}

# Starts the server as its unit does.
start() {
    install -d -o porpoise -g porpoise /run/porpoise
    : >/opt/dist/notified
    setpriv --reuid=porpoise --regid=porpoise --clear-groups --no-new-privs \
        env NOTIFY_SOCKET=/opt/dist/notify \
        /usr/bin/porpoise serve --config /etc/porpoise/porpoise.toml >/opt/dist/screen 2>>/var/log/porpoise/test.log &
    server=$!
    until_true grep -q '^READY=1$' /opt/dist/notified
}

stop() {
    kill -TERM "$server"
    wait "$server" || fail "the server ended with $?"
    grep -q '^STOPPING=1$' /opt/dist/notified || fail "the end was not announced"
}

package=$(echo /opt/dist/*.deb)
begin=$SECONDS
dpkg -i "$package"
expect "porpoise 0" porpoise --version
expect "max\\-connections" zcat /usr/share/man/man1/porpoise-serve.1.gz
[ "$(stat -c '%U %a' /var/lib/porpoise)" = "porpoise 700" ] || fail "the data directory's owner and mode"

start
echo "from the package to the first statement: $((SECONDS - begin)) s"
expect 42 porpoise sql -N -e "select 41 + 1"
porpoise sql -e "create database shop; create table shop.t (id int primary key, v varchar(20)); alter table shop.t memcached prefix 't:'"
expect STORED porpoise mc set t:1 hello
expect hello porpoise sql -N -S /run/porpoise/mysql.sock -e "select v from shop.t"
grep -q "root has no password" /opt/dist/screen || fail "the screen has no warning"
stop

# A demonstration leaves neither processes nor files.
before=$(find /tmp /dev/shm 2>/dev/null | sort)
expect 600 bash -c 'echo "select count(*) from post" | porpoise demo'
[ "$before" = "$(find /tmp /dev/shm 2>/dev/null | sort)" ] || fail "the demonstration left files"
if grep -lx porpoise /proc/[0-9]*/comm >/dev/null 2>&1; then fail "the demonstration left a process"; fi

# Logs are rotated.
echo line >>/var/log/porpoise/porpoise.log
chown porpoise:porpoise /var/log/porpoise/porpoise.log
logrotate --force --state /opt/dist/state /etc/logrotate.d/porpoise || fail "logrotate"
[ -e /var/log/porpoise/porpoise.log.1 ] || fail "the log was not rotated"

# A changed configuration file is kept by an upgrade, the data by removal and purge.
echo 'max_connections = 77' >>/etc/porpoise/porpoise.toml
dpkg -i --force-confold "$package" >/dev/null
grep -q 77 /etc/porpoise/porpoise.toml || fail "an upgrade lost the configuration"
dpkg -r porpoise >/dev/null
[ -e /etc/porpoise/porpoise.toml ] || fail "removal lost the configuration"
dpkg -P porpoise
[ ! -e /etc/porpoise/porpoise.toml ] || fail "a purge kept the configuration"
dpkg -i "$package" >/dev/null
start
expect hello porpoise sql -N -e "select v from shop.t"
stop
dpkg -P porpoise >/dev/null

# The tarball alone: unpack and run.
mkdir -p /opt/alone
tar -xzf /opt/dist/*.tar.gz -C /opt/alone --strip-components=1
expect 600 bash -c 'echo "select count(*) from post" | /opt/alone/bin/porpoise demo'
echo "all steps passed in $((SECONDS - begin)) s"
