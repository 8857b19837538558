"""Patches in git's own format, byte for byte, so that `git apply` makes the same file of them.

What counts is that a patch applies: a text is compared line by line as long as that is quick, and
replaced as a whole where it is not. What has a NUL in it, or is long, is a binary patch (RFC 1924
letters over zlib, as git writes them), which names both versions by their whole object ids.
"""

from __future__ import annotations

import base64
import difflib
import hashlib
import stat
import zlib
from collections.abc import Iterator, Sequence

import msgspec

MAX_TEXT_BYTES = 1 << 20  # a longer file is a binary patch
# Lines of both versions, without the same ones at both ends. Comparing takes the square of it.
_MAX_COMPARED = 2000
_CONTEXT = 3
_BINARY_LINE = 52
_NO_END = b"\\ No newline at end of file\n"
_PLAIN_ESCAPES = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}
LINK_MODE = 0o120000


class Version(msgspec.Struct, frozen=True):
    """A file as git sees it: its mode, and its bytes; of a link those of its target."""

    mode: int
    data: bytes

    @property
    def is_link(self) -> bool:
        return self.mode == LINK_MODE


def git_mode(st_mode: int) -> int:
    """Return the mode that git keeps of a file or a link."""
    if stat.S_ISLNK(st_mode):
        return LINK_MODE
    return 0o100755 if st_mode & 0o100 else 0o100644


def file_patch(
    path: bytes, old: Version | None, new: Version | None, algorithm: str = "sha1"
) -> Iterator[bytes]:
    """Yield the patch of one path; nothing where both versions are the same. `algorithm` is that
    of the repository's object ids."""
    if old == new:
        return
    if old is not None and new is not None and old.is_link != new.is_link:
        yield from file_patch(path, old, None, algorithm)
        yield from file_patch(path, None, new, algorithm)
        return
    yield b"diff --git %s %s\n" % (_quoted(b"a/" + path), _quoted(b"b/" + path))
    if old is None and new is not None:
        yield b"new file mode %o\n" % new.mode
    elif new is None and old is not None:
        yield b"deleted file mode %o\n" % old.mode
    elif old is not None and new is not None and old.mode != new.mode:
        yield b"old mode %o\nnew mode %o\n" % (old.mode, new.mode)
    before, after = (b"" if version is None else version.data for version in (old, new))
    if before == after:
        # Git wants to know of an empty file that it is one.
        if old is None or new is None:
            yield _index(old, new, algorithm)
    elif _is_binary(before) or _is_binary(after):
        yield _index(old, new, algorithm)
        yield from _binary(before, after)
    else:
        yield b"--- %s\n" % (b"/dev/null" if old is None else _named(b"a/" + path))
        yield b"+++ %s\n" % (b"/dev/null" if new is None else _named(b"b/" + path))
        yield from _hunks(_lines(before), _lines(after))


def _is_binary(data: bytes) -> bool:
    return len(data) > MAX_TEXT_BYTES or b"\0" in data


def _lines(data: bytes) -> list[bytes]:
    """Return the lines of a text. Only a line feed ends one: git counts none of the other
    characters that Python does."""
    parts = data.split(b"\n")
    last = parts.pop()
    return [*(part + b"\n" for part in parts), *([last] if last else [])]


def _hunks(old: list[bytes], new: list[bytes]) -> Iterator[bytes]:
    for group in _groups(old, new):
        (_, first_a, _, first_b, _), (_, _, last_a, _, last_b) = group[0], group[-1]
        ranges = (_range(first_a, last_a), _range(first_b, last_b))
        yield b"@@ -%s +%s @@\n" % ranges
        for tag, a1, a2, b1, b2 in group:
            if tag == "equal":
                yield from _signed(b" ", old[a1:a2])
                continue
            yield from _signed(b"-", old[a1:a2])
            yield from _signed(b"+", new[b1:b2])


def _groups(
    old: list[bytes], new: list[bytes]
) -> Iterator[Sequence[tuple[str, int, int, int, int]]]:
    """Yield the hunks as difflib gives them: what is equal, replaced, gone and new in each."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    if len(old) + len(new) - 2 * (start + end) <= _MAX_COMPARED:
        # What is the same at both ends was compared already; a little of it is the context.
        lead, tail = max(start - _CONTEXT, 0), max(end - _CONTEXT, 0)
        parts = [lines[lead : len(lines) - tail] for lines in (old, new)]
        matcher = difflib.SequenceMatcher(None, parts[0], parts[1], autojunk=False)
        for group in matcher.get_grouped_opcodes(_CONTEXT):
            yield [(t, a1 + lead, a2 + lead, b1 + lead, b2 + lead) for t, a1, a2, b1, b2 in group]
        return
    last_a, last_b = len(old) - end, len(new) - end
    before, after = min(_CONTEXT, start), min(_CONTEXT, end)
    yield [
        ("equal", start - before, start, start - before, start),
        ("replace", start, last_a, start, last_b),
        ("equal", last_a, last_a + after, last_b, last_b + after),
    ]


def _range(start: int, end: int) -> bytes:
    """Return a range as a unified diff has it: an empty one is counted from the line before it."""
    count = end - start
    if count == 1:
        return b"%d" % (start + 1)
    return b"%d,%d" % (start + 1 if count else start, count)


def _signed(sign: bytes, lines: Sequence[bytes]) -> Iterator[bytes]:
    for line in lines:
        yield sign + line
        if not line.endswith(b"\n"):
            yield b"\n" + _NO_END


def _index(old: Version | None, new: Version | None, algorithm: str) -> bytes:
    ids = [_object_id(version, algorithm) for version in (old, new)]
    is_same_mode = old is not None and new is not None and old.mode == new.mode
    mode = b" %o" % old.mode if is_same_mode and old is not None else b""
    return b"index %s..%s%s\n" % (ids[0], ids[1], mode)


def _object_id(version: Version | None, algorithm: str) -> bytes:
    hashed = hashlib.new(algorithm, usedforsecurity=False)
    if version is None:
        return b"0" * (2 * hashed.digest_size)
    hashed.update(b"blob %d\0" % len(version.data))
    hashed.update(version.data)
    return hashed.hexdigest().encode()


def _binary(old: bytes, new: bytes) -> Iterator[bytes]:
    """Yield both directions of a binary patch: with the second one git can also take it back."""
    yield b"GIT binary patch\n"
    for data in (new, old):
        yield b"literal %d\n" % len(data)
        packed = zlib.compress(data)
        for at in range(0, len(packed), _BINARY_LINE):
            piece = packed[at : at + _BINARY_LINE]
            size = ord("A") + len(piece) - 1 if len(piece) <= 26 else ord("a") + len(piece) - 27
            yield bytes([size]) + base64.b85encode(piece, pad=True) + b"\n"
        yield b"\n"


def _named(path: bytes) -> bytes:
    """Return a name as it stands in the lines before a hunk, where one with a space ends with a
    tab."""
    quoted = _quoted(path)
    return quoted + b"\t" if b" " in path and quoted == path else quoted


def _quoted(path: bytes) -> bytes:
    """Return a name as git quotes it: like a string of C, where it is not all plain."""
    letters = []
    for byte in path:
        if byte in _PLAIN_ESCAPES:
            letters.append(f"\\{_PLAIN_ESCAPES[byte]}")
        else:
            letters.append(chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}")
    text = "".join(letters).encode()
    return path if text == path else b'"%s"' % text
