"""Headers that are for one hop only stay on it."""

from __future__ import annotations

from paddock.doors.network.http1.messages import end_to_end


def test_hop_by_hop_headers_do_not_go_on() -> None:
    headers = [
        (b"Connection", b"close, X-Private"),
        (b"x-private", b"1"),
        (b"Keep-Alive", b"5"),
        (b"Proxy-Authorization", b"x"),
        (b"Proxy-Connection", b"x"),
        (b"TE", b"gzip, trailers"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Upgrade", b"h2c"),
        (b"Accept", b"*/*"),
    ]
    assert end_to_end(headers) == [(b"TE", b"trailers"), (b"Accept", b"*/*")]


def test_connection_header_cannot_take_the_host_away() -> None:
    headers = [(b"Connection", b"host, content-length"), (b"Host", b"a"), (b"Content-Length", b"1")]
    assert end_to_end(headers) == headers[1:]


def test_websocket_upgrade_goes_on() -> None:
    headers = [(b"Connection", b"Upgrade"), (b"Upgrade", b"websocket")]
    assert end_to_end(headers) == headers[1:]
