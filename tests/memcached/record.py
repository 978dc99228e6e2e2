#!/usr/bin/env python3
"""Plays the transcripts in this directory against a memcached and compares.

    record.py [--write] [FILE...]

Starts the memcached found in PATH on a free port of the loopback interface, a
fresh one for each file, and stops it again. With --write the replies in the
files are replaced by what was received.

Format of a transcript: lines that start with '# ' are remarks; '> ' is sent,
consecutive ones at once; '< ' is received; '! closed' means that the server
ended the connection. Escapes: \\r \\n \\t \\\\ \\xNN, \\{TEXT*N} for a repeated
text, \\{any} for the rest of a received line, \\{cas} for a number that is
received and, when it stands in a line that is sent, the last one received;
\\{cas8} the same for eight bytes.
"""
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time

TOKEN = re.compile(rb"\\(?:([rnt\\])|x([0-9a-f]{2})|\{(any|cas8|cas)\}|\{([^*}]*)\*(\d+)\})")
PLAIN = {b"r": b"\r", b"n": b"\n", b"t": b"\t", b"\\": b"\\"}


def expand(text, variable):
    """Bytes of an escaped text; `variable` says what {any} and {cas} become."""

    def one(match):
        plain, hexa, name, repeated, count = match.groups()
        if plain:
            return PLAIN[plain]
        if hexa:
            return bytes([int(hexa, 16)])
        if name:
            return variable(name)
        return repeated * int(count)

    return TOKEN.sub(lambda m: one(m), text)


def pattern(text):
    """A regular expression for a received text."""
    at, out = 0, b""
    for match in TOKEN.finditer(text):
        out += re.escape(text[at : match.start()])
        name = match.group(3)
        if name == b"any":
            out += b"[^\r\n]*"
        elif name == b"cas":
            out += b"([0-9]+)"
        elif name == b"cas8":
            out += b"(.{8})"
        else:
            out += re.escape(expand(match.group(0), None))
        at = match.end()
    return re.compile(out + re.escape(text[at:]), re.S)


def escape(data):
    out = []
    for line in data.splitlines(keepends=True):
        text = b""
        for byte in line:
            special = {13: b"\\r", 10: b"\\n", 9: b"\\t", 92: b"\\\\"}.get(byte)
            text += special or (bytes([byte]) if 32 <= byte < 127 else b"\\x%02x" % byte)
        out.append(b"< " + text)
    return out


def steps(lines):
    """Groups of (sent, received, closed)."""
    group = ([], [], [])
    for line in lines:
        if line.startswith(b"> "):
            if group[1] or group[2]:
                yield group
                group = ([], [], [])
            group[0].append(line[2:])
        elif line.startswith(b"< "):
            group[1].append(line[2:])
        elif line == b"! closed":
            group[2].append(line)
        elif line and not line.startswith(b"#"):
            sys.exit(f"unknown line: {line!r}")
    if group[0]:
        yield group


def receive(connection):
    data = b""
    connection.settimeout(0.12)
    try:
        while True:
            part = connection.recv(1 << 16)
            if not part:
                return data, True
            data += part
    except socket.timeout:
        return data, False
    except ConnectionError:
        return data, True


def start():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [shutil.which("memcached"), "-l", "127.0.0.1", "-p", str(port), "-U", "0", "-u", "nobody"]
    )
    for _ in range(100):
        try:
            return server, socket.create_connection(("127.0.0.1", port))
        except ConnectionError:
            time.sleep(0.02)
    sys.exit("memcached does not answer")


def play(path, write):
    lines = path.read_bytes().splitlines()
    out = [line for line in lines if line.startswith(b"#")]
    same, cas = True, b"0"
    server, connection = start()
    try:
        for sent, expected, closed in steps(lines):
            connection.sendall(b"".join(expand(s, lambda _: cas) for s in sent))
            data, ended = receive(connection)
            match = pattern(b"".join(expected)).fullmatch(data)
            if match:
                cas = match.groups()[-1] if match.groups() else cas
            if not match or bool(closed) != ended:
                same = False
                print(f"{path.name}: sent {sent}\n  expected {expected} {closed}\n  received {data!r} {ended}")
            out += [b"> " + s for s in sent]
            out += [b"< " + e for e in expected] if match else escape(data)
            out += [b"! closed"] if ended else []
    finally:
        connection.close()
        server.terminate()
        server.wait()
    if write:
        path.write_bytes(b"\n".join(out) + b"\n")
    return same


def main():
    args = [a for a in sys.argv[1:] if a != "--write"]
    here = pathlib.Path(__file__).parent
    paths = [pathlib.Path(a) for a in args] or sorted(here.glob("*.txt"))
    different = [p.name for p in paths if not play(p, "--write" in sys.argv)]
    print(f"{len(paths)} transcripts, {len(different)} different")
    sys.exit(1 if different else 0)


main()
