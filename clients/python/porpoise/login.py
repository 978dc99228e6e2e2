"""The plugin caching_sha2_password, in frames of the protocol."""

import hashlib

from .errors import Error, ProtocolError

FAST_PASSED, FULL_NEEDED = b"\x01\x03", b"\x01\x04"
KEY_WANTED = b"\x02"


def answer(password, salt):
    """The answer to the challenge; empty without a password."""
    if not password:
        return b""
    once = hashlib.sha256(password.encode()).digest()
    twice = hashlib.sha256(once).digest()
    mask = hashlib.sha256(twice + salt).digest()
    return bytes(a ^ b for a, b in zip(once, mask))


def encrypted(password, salt, key):
    """The password, encrypted with the server's key."""
    try:
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import padding
    except ImportError as missing:
        raise Error("this login needs TLS, or the package cryptography") from missing
    plain = password.encode() + b"\0"
    masked = bytes(byte ^ salt[n % len(salt)] for n, byte in enumerate(plain))
    oaep = padding.OAEP(mgf=padding.MGF1(hashes.SHA1()), algorithm=hashes.SHA1(), label=None)
    return serialization.load_pem_public_key(key).encrypt(masked, oaep)


class Exchange:
    """The messages after the first answer."""

    def __init__(self, password, salt, is_secure):
        self.password = password
        self.salt = salt
        self.is_secure = is_secure

    def reply(self, message):
        """The reply to a message of the server; None if it needs none."""
        if message == FAST_PASSED:
            return None
        if message == FULL_NEEDED:
            return self.password.encode() + b"\0" if self.is_secure else KEY_WANTED
        if message[:1] == b"\x01":
            return encrypted(self.password, self.salt, message[1:])
        if message[:1] == b"\xfe":
            plugin, _, salt = message[1:].partition(b"\0")
            if plugin == b"caching_sha2_password":
                self.salt = salt[:20]
                return answer(self.password, self.salt)
            if plugin == b"mysql_native_password":
                return native_answer(self.password, salt[:20])
        raise ProtocolError("login: an unknown message")


def native_answer(password, salt):
    """The answer of mysql_native_password."""
    if not password:
        return b""
    once = hashlib.sha1(password.encode()).digest()
    twice = hashlib.sha1(once).digest()
    mask = hashlib.sha1(salt + twice).digest()
    return bytes(a ^ b for a, b in zip(once, mask))
