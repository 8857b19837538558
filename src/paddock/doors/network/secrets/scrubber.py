"""Takes values of secrets out of answers: headers, trailers and bodies, in whatever encoding. Where
a value stood the agent reads its placeholder.

Every answer is looked at for every secret of the sandbox: a value that was sent to its own host can
come back from another one. A host that gets no values sends none in good faith, so there a value is
covered in its own length, and the announced length of the body holds.

A compressed body would hide a value, so servers are asked not to compress, and what they compress
nevertheless is decoded, or refused. gRPC and Connect compress each message within the body and say
so in headers of their own; that is not decoded, only refused.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Protocol

from paddock.doors.network.exchange import BadMessage, Headers, values_of, without
from paddock.journal.secrets.search import Needle, Needles, replaced

_PIECE = 65536  # as much as is decoded at once, whatever a few bytes promise to become
_ACCEPTED = (b"accept-encoding", b"te", b"grpc-accept-encoding", b"connect-accept-encoding")
_OF_MESSAGES = (b"grpc-encoding", b"connect-content-encoding")
_ZLIB, _GZIP, _RAW = 15, 31, -15  # what zlib calls the three wrappings of deflate


class Scrubber:
    """Knows values and what to show instead."""

    def __init__(
        self,
        values: Iterable[Needle],
        placeholders: Mapping[str, str],
        *,
        keeps_length: bool = False,
    ) -> None:
        self.keeps_length = keeps_length  # of every body
        self._needles = Needles(values)
        self._placeholders = {
            needle.name: placeholders[needle.name].encode() for needle in self._needles.all
        }

    def _shown(self, name: str, length: int) -> bytes:
        placeholder = self._placeholders[name]
        return placeholder[:length].ljust(length, b"*") if self.keeps_length else placeholder

    def scrub(self, data: bytes) -> bytes:
        """Data that is whole."""
        return replaced(data, self._needles.spans(data), self._shown)

    def scrub_headers(self, headers: Headers) -> Headers:
        """Headers or trailers, values and names."""
        # Looked at as one first, because mostly nothing is in any of them.
        if not self._needles.suspects(b"\n".join(chain.from_iterable(headers))):
            return headers
        return [(self.scrub(name), self.scrub(value)) for name, value in headers]

    def stream(self) -> ScrubbedStream:
        """For a body, or one direction of a WebSocket."""
        return ScrubbedStream(self._needles, self._shown)


class ScrubbedStream:
    """Bytes in pieces in, scrubbed bytes out; held back is only what may begin a value."""

    def __init__(self, needles: Needles, shown: Callable[[str, int], bytes]) -> None:
        self._needles = needles
        self._shown = shown
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Return what can be let go of all data so far; it may be nothing."""
        data = self._held + data
        spans = self._needles.spans(data)
        cut = self._needles.open_end(data, spans)
        self._held = data[cut:]
        done = [span for span in spans if span[1] <= cut]
        return replaced(data[:cut], done, self._shown)

    def finish(self) -> bytes:
        """The rest, when no more comes."""
        rest, self._held = self._held, b""
        return replaced(rest, self._needles.spans(rest), self._shown)


class ContentDecoder(Protocol):
    """Undoes the compression of one body."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Pieces of bounded size. All of them are to be taken before more is fed."""
        ...

    def finish(self) -> None:
        """Raises BadMessage when the body is not whole."""
        ...


def ask_for_plain(headers: Headers) -> Headers:
    """The same request, for an answer that is not compressed."""
    return [*without(headers, *_ACCEPTED), (b"accept-encoding", b"identity")]


def has_plain_messages(headers: Headers) -> bool:
    """Return whether the messages in the body of an answer are not compressed by themselves."""
    codings = [coding for name in _OF_MESSAGES for coding in values_of(headers, name)]
    return all(coding.strip().lower() in (b"", b"identity") for coding in codings)


def decoder_for(content_encoding: bytes | None) -> ContentDecoder | None:
    """None when it cannot be undone here: then nobody knows what is in the body."""
    coding = (content_encoding or b"identity").strip().lower()
    made = _DECODERS.get(coding)
    return made() if made is not None else None


class _Identity:
    """A body as it is."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        yield data

    def finish(self) -> None: ...


class _Inflate:
    """gzip, also of several members, and deflate with or without its wrapping."""

    def __init__(self, wrapping: int) -> None:
        self._wrapping = wrapping
        self._state: zlib._Decompress | None = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            state = self._state or self._begin(data[0])
            yield from self._pieces(state, data)
            data = state.unused_data
            if not state.eof:
                return
            self._state = None
            if data and self._wrapping != _GZIP:
                raise BadMessage(502, "the answer goes on behind the end of its compressed body")

    def finish(self) -> None:
        if self._state is not None:
            raise BadMessage(502, "the compressed body of the answer is not whole")

    def _begin(self, first: int) -> zlib._Decompress:
        # Servers send deflate bare as well; a wrapping says 8 in its lower half.
        is_bare = self._wrapping == _ZLIB and first & 0x0F != 8
        self._state = zlib.decompressobj(_RAW if is_bare else self._wrapping)
        return self._state

    def _pieces(self, state: zlib._Decompress, data: bytes) -> Iterator[bytes]:
        piece = b""
        while data or len(piece) == _PIECE:  # a full piece may have more behind it
            try:
                piece = state.decompress(data, _PIECE)
            except zlib.error:
                raise BadMessage(502, "the compressed body of the answer is damaged") from None
            data = state.unconsumed_tail
            if piece:
                yield piece
            if state.eof:
                return


_DECODERS: dict[bytes, Callable[[], ContentDecoder]] = {
    b"identity": _Identity,
    b"": _Identity,
    b"gzip": lambda: _Inflate(_GZIP),
    b"x-gzip": lambda: _Inflate(_GZIP),
    b"deflate": lambda: _Inflate(_ZLIB),
}
