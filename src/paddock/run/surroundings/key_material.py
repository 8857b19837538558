"""Whether a file holds a private key or an account's credentials, told by its content.

A mark in a program (`if "BEGIN PRIVATE KEY" in text`) is no key: there must be the body of one.
Files are looked at up to a bound, and kinds of files that hold no text are not looked at. The
project may be anybody's, so that no search takes longer than in proportion to the file.
"""

from __future__ import annotations

import base64
import os
import re

# A key is a few kilobytes, alone or among other settings. Of larger files the beginning is read.
MAX_WHOLE_BYTES = 8 << 20
_BEGINNING_BYTES = 64 << 10
# Less than any key has.
_LEAST_BYTES = 40
_NOT_TEXT = (
    ".png", ".jpg", ".jpeg", ".gif", ".webp", ".ico", ".bmp", ".tif", ".tiff", ".woff", ".woff2",
    ".ttf", ".otf", ".eot", ".mp3", ".mp4", ".webm", ".ogg", ".wav", ".avi", ".mov", ".zip", ".gz",
    ".tgz", ".xz", ".bz2", ".zst", ".7z", ".rar", ".whl", ".jar", ".class", ".pyc", ".pyo", ".so",
    ".o", ".a", ".dylib", ".dll", ".exe", ".wasm", ".parquet", ".npy", ".npz", ".safetensors",
)  # fmt: skip

# What may begin a key, to find quickly that there is none.
_HINTS = (b"PRIVATE KEY", b"PrivateKey", b"Private-Lines", b"AGE-SECRET-KEY-1", b"secret key",
          b'"kty"', b"service_account", b"authorized_user", b"-secret: type0",
          b"LS0tLS1CRUdJTi", b"external_account", b"Private-key-format", b"RSAKeyValue",
          b":private-key(", b":protected-private-key(")  # fmt: skip
_MARK = rb"-{4,5} ?BEGIN [A-Z0-9 ]{0,60}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
# At the end of its line, as it is, or with the line breaks of JSON and of programs, which are
# escaped once more in a text within a text.
_PEM = re.compile(_MARK + rb"[ \t]{0,20}(?:[\r\n]|\\{1,8}[rn])")
# All in one line, as in a variable, or in lines that are strings of a program.
_PEM_LINE = re.compile(_MARK + rb"[\s!-/:-@\[-`{-~]{0,80}[A-Za-z0-9][A-Za-z0-9+/]{39}")
# "-----BEGIN " and what follows, in base64, as Kubernetes has it.
_PEM_BASE64 = re.compile(rb"LS0tLS1CRUdJTi[A-Za-z0-9+/]{30,58}")
# A key in DER: a version, then numbers, the name of an algorithm, or the octets of the key. Or an
# encrypted one: PBES1, PBES2 or a scheme of PKCS #12, and its parameters. Or a store of PKCS #12.
_LENGTH = rb"(?:[\x00-\x80]|\x81.|\x82..|\x83...)"
_PKCS = rb"\x2a\x86\x48\x86\xf7\x0d\x01"
_NAMED = rb"\x30" + _LENGTH + rb"\x06"
_DER = (
    rb"\x30" + _LENGTH + rb"(?:"
    rb"\x02\x01[\x00\x01](?:\x02[\x81\x82]|" + _NAMED + rb"|\x04[\x14-\x42])"
    rb"|" + _NAMED + rb"(?:\x09" + _PKCS + rb"\x05|\x0a" + _PKCS + rb"\x0c\x01)"
    rb"|\x02\x01\x03" + _NAMED + rb"\x09" + _PKCS + rb"\x07[\x01\x02])"
)  # fmt: skip
# The first packet of a secret key of OpenPGP: its length, version, time and algorithm.
_PGP = (
    rb"(?:\x94.|\x95..|\x96....|\x97|\xc5(?:[\x00-\xbf]|[\xc0-\xdf].|\xff....))"
    rb"[\x04-\x06][\x30-\x7f]...[\x01-\x03\x10-\x13\x16\x19-\x1c]"
)
# Of Microsoft: a file of a private key, and what .NET and its CryptoAPI export.
_MICROSOFT = rb"\x1e\xf1\xb5\xb0\x00\x00\x00\x00|\x07\x02\x00\x00....(?:RSA2|DSS2)"
# A store of Java with the name of what private keys in it are encrypted with.
_JAVA = rb"(?:\xfe\xed\xfe\xed|\xce\xce\xce\xce)\x00\x00\x00[\x01\x02].*?" + (
    rb"\x2b\x06\x01\x04\x01\x2a\x02(?:\x11\x01\x01|\x13\x01)"
)
_BINARY = re.compile(b"|".join((_DER, _PGP, _MICROSOFT, _JAVA)), re.DOTALL)
# With a byte order mark, or with a first line in ASCII.
_UTF16 = re.compile(rb"\xff\xfe|\xfe\xff|(?:[\t-~]\0){8}|(?:\0[\t-~]){8}")
_BODY = re.compile(rb"[A-Za-z0-9+/]{8}")
_END = re.compile(rb"-{4,5} ?END ")
_BODY_BYTES = 200  # in which it begins, behind headers that some have
_OTHERS = (
    re.compile(rb"^Private-Lines: *[0-9]+\r?\n[A-Za-z0-9+/=]{32}", re.M),  # PuTTY
    re.compile(rb"\bAGE-SECRET-KEY-1[A-Z0-9]{50}"),
    re.compile(rb"^[ \t]*PrivateKey[ \t]*=[ \t]*[A-Za-z0-9+/]{43}=", re.M),  # WireGuard
    re.compile(rb"^untrusted comment: .{0,200}secret key.{0,200}\r?\n[A-Za-z0-9+/=]{64}", re.M),
    re.compile(rb"\A== ed25519v1-secret: type0 =="),  # Tor
    re.compile(rb"\([0-9]{2}:(?:protected-)?private-key\("),  # of GnuPG's agent
)
# Accounts of Google: the type, a field that holds the secret, and that field with a value as long
# as a real one. Programs show accounts as examples, `"refresh_token": "refreshToken"`, and must not
# lose a module because of that, so that only the last counts in them.
_ACCOUNTS = (
    (
        re.compile(rb'"type"\s*:\s*"service_account"'),
        re.compile(rb'"private_key"\s*:'),
        re.compile(rb'"private_key"\s*:\s*"[^"]*[A-Za-z0-9+/]{20}'),
    ),
    (
        re.compile(rb'"type"\s*:\s*"authorized_user"'),
        re.compile(rb'"refresh_token"\s*:'),
        re.compile(rb'"refresh_token"\s*:\s*"[^"\s]{16}'),
    ),
    (
        re.compile(rb'"type"\s*:\s*"external_account'),
        re.compile(rb'"(?:client_secret|refresh_token)"\s*:'),
        re.compile(rb'"(?:client_secret|refresh_token)"\s*:\s*"[^"\s]{16}'),
    ),
)
_PROGRAM = ".py"
# These all, of each.
_TOGETHER = (
    (
        re.compile(rb"^Private-key-format: v[0-9]", re.M),  # DNSSEC
        re.compile(rb"^(?:Key|Private\w+(?:\(x\))?): *[A-Za-z0-9+/]{16}", re.M),
    ),
    (
        re.compile(rb"(?:<|&lt;)RSAKeyValue"),  # .NET
        re.compile(rb"(?:<|&lt;)(?:D|P|InverseQ)(?:>|&gt;)\s{0,100}[A-Za-z0-9+/]{20}"),
    ),
    (re.compile(rb'"kty"\s*:\s*"'), re.compile(rb'"(?:d|k)"\s*:\s*"[A-Za-z0-9_-]{20}')),
)


def may_hold_key(entry: os.DirEntry[str]) -> bool:
    """Return whether a regular file is worth being looked into."""
    if entry.name.lower().endswith(_NOT_TEXT):
        return False
    try:
        return entry.stat(follow_symlinks=False).st_size >= _LEAST_BYTES
    except OSError:
        return False  # gone meanwhile


def is_key_in(path: str) -> bool:
    """Return whether the file holds a private key or an account's credentials. What cannot be read
    here cannot be read by the agent, who stands for the same user."""
    try:
        # It may have become a pipe or a link meanwhile.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        size = os.fstat(fd).st_size
        content = os.read(fd, size if size <= MAX_WHOLE_BYTES else _BEGINNING_BYTES)
    except OSError:
        return False
    finally:
        os.close(fd)
    return holds_key(content, is_program=path.endswith(_PROGRAM))


def holds_key(content: bytes, *, is_program: bool = False) -> bool:
    """Return whether there is a key in the content, also as a text inside of JSON, YAML or code."""
    if _BINARY.match(content):
        return True
    if _UTF16.match(content):
        content = content.replace(b"\0", b"")
    if not any(hint in content for hint in _HINTS):
        return False
    if _PEM_LINE.search(content) or any(map(_is_key_begun, _PEM_BASE64.findall(content))):
        return True
    if any(_has_body(content, mark.end()) for mark in _PEM.finditer(content)):
        return True
    if any(pattern.search(content) for pattern in _OTHERS):
        return True
    for kind, field, long_field in _ACCOUNTS:
        secret = long_field if is_program else field
        if kind.search(content) and secret.search(content):
            return True
    return any(all(expression.search(content) for expression in patterns) for patterns in _TOGETHER)


def _has_body(content: bytes, start: int) -> bool:
    """Return whether the body of a key begins here: before its end, and behind its headers."""
    limit = start + _BODY_BYTES
    end = _END.search(content, start, limit)
    return _BODY.search(content, start, limit if end is None else end.start()) is not None


def _is_key_begun(encoded: bytes) -> bool:
    return b"PRIVATE KEY" in base64.b64decode(encoded[: len(encoded) // 4 * 4])
