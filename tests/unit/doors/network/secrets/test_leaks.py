"""A placeholder on its way to where it is not for is noticed, in whatever spelling and pieces."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from cases import for_each
from paddock.doors.network.secrets.leaks import Leaks
from paddock.state.home import Home
from paddock.state.revocations import revoke
from unit.doors.network.keepers import API, ELSEWHERE, make_keeper, terms_of

SPELLINGS: dict[str, Callable[[str], str]] = {
    "plain": lambda s: s,
    "json": lambda s: json.dumps({"a": json.dumps(s)}),
    "unicode escapes": lambda s: "".join(f"\\u{ord(c):04x}" for c in s),
    "some unicode escapes": lambda s: s.translate({97: "\\u0061", 49: "\\u0031"}),
    "every byte percent": lambda s: "".join(f"%{ord(c):02X}" for c in s),
    "percent twice": lambda s: "".join(f"%25{ord(c):02x}" for c in s),
    "some percent": lambda s: s.replace("_", "%5f").replace("0", "%30"),
    "hex": lambda s: s.encode().hex(),
    "HEX": lambda s: s.encode().hex().upper(),
    **{
        f"base64 after {shift}": (
            lambda s, shift=shift: base64.b64encode(b"p" * shift + s.encode() + b"qq").decode()
        )
        for shift in range(3)
    },
    "base64 for urls": lambda s: base64.urlsafe_b64encode(b"~~" + s.encode()).decode(),
    "base64 in a url": lambda s: quote(base64.b64encode(b"??" + s.encode()).decode(), safe=""),
    "base64 in lines": lambda s: base64.encodebytes(b"x" * 40 + s.encode()).decode(),
    "token alone": lambda s: s.rpartition("_")[2],
    "small letters": str.lower,
}


class Bench:
    def __init__(self, tmp_path: Path) -> None:
        self.keeper = make_keeper(tmp_path, terms_of("KEY"), terms_of("OTHER", ELSEWHERE))
        self.leaks = Leaks(self.keeper)
        self.placeholder = self.keeper.environment()["KEY"]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@for_each("spelling", SPELLINGS)
def test_placeholder_is_found_in_this_spelling_wherever_it_stands(
    bench: Bench, spelling: str
) -> None:
    shown = SPELLINGS[spelling](bench.placeholder)
    line = shown.replace("\n", "").encode()
    look = bench.leaks.leaks
    assert look([(b"x-a", b"1 " + line)], "/", None, ELSEWHERE) == "KEY"
    assert look([], f"/a/{line.decode()}/b", None, ELSEWHERE) == "KEY"
    assert look([], f"/a?q={line.decode()}", None, ELSEWHERE) == "KEY"
    assert look([], "/", b"\xff\0 " + shown.encode() + b" \x80", ELSEWHERE) == "KEY"


@for_each("spelling", SPELLINGS)
def test_placeholder_is_found_in_a_stream_cut_anywhere(bench: Bench, spelling: str) -> None:
    data = b"see " + SPELLINGS[spelling](bench.placeholder).encode() + b" end"
    for at in range(len(data) + 1):
        watch = bench.leaks.watch(ELSEWHERE)
        watch.feed(data[:at])
        assert watch.feed(data[at:]) == "KEY", at
    watch = bench.leaks.watch(ELSEWHERE)
    for byte in data:
        watch.feed(bytes([byte]))
    assert watch.found == "KEY"


def test_placeholder_in_a_header_name_is_found_though_it_lost_its_capitals(bench: Bench) -> None:
    for name in (bench.placeholder.lower(), bench.placeholder.upper(), bench.placeholder.title()):
        assert bench.leaks.leaks([(name.encode(), b"1")], "/", None, ELSEWHERE) == "KEY"


def test_placeholder_in_a_host_name_is_found(bench: Bench) -> None:
    host = f"{bench.placeholder.lower()}.{ELSEWHERE}"
    assert bench.leaks.leaks([], "/", None, host) == "KEY"
    assert bench.leaks.leaks([], "/", None, ELSEWHERE, bench.placeholder.upper()) == "KEY"


def test_placeholder_may_go_where_it_is_for_and_nowhere_else(bench: Bench) -> None:
    headers = [(b"authorization", bench.placeholder.encode())]
    assert bench.leaks.leaks(headers, "/", bench.placeholder.encode(), API) is None
    assert bench.leaks.watch(API).feed(bench.placeholder.encode()) is None
    for host in ("evilapi.example.com", "x.api.example.com", "example.com", "1.2.3.4"):
        assert bench.leaks.leaks(headers, "/", None, host) == "KEY"


def test_secret_of_another_host_is_noticed_at_one_that_has_its_own(bench: Bench) -> None:
    other = bench.keeper.environment()["OTHER"].encode()
    assert bench.leaks.leaks([(b"x", other)], "/", None, API) == "OTHER"


def test_revoked_placeholder_may_go_nowhere(bench: Bench, tmp_path: Path) -> None:
    headers = [(b"authorization", bench.placeholder.encode())]
    revoke(Home(tmp_path / "home"), "KEY")
    assert bench.leaks.leaks(headers, "/", None, API) == "KEY"
    assert bench.leaks.watch(API).feed(bench.placeholder.encode()) == "KEY"


def test_honest_requests_pass(bench: Bench) -> None:
    headers = [(b"user-agent", b"curl/8"), (b"cookie", b"a=%20%2f; paddock_KEY_"), (b"x", b"%41")]
    for body in (
        None,
        b"",
        os.urandom(100_000),
        b"paddock_KEY_" * 100,
        bench.placeholder[:-1].encode(),
    ):
        assert bench.leaks.leaks(headers, "/a?b=%7Bc%7D", body, ELSEWHERE) is None


def test_stream_holds_a_bounded_part_whatever_comes(bench: Bench) -> None:
    token = bench.placeholder.rpartition("_")[2].encode()
    watch = bench.leaks.watch(ELSEWHERE)
    for piece in (b"\\" * 20_000, b"%25" * 7_000, (token[:-1] + b"-") * 900, b"A" * 20_000):
        assert watch.feed(piece) is None
        assert len(watch._held) <= 4096
    assert watch.feed(b" " + token) == "KEY"


def test_sandbox_without_secrets_leaks_none(tmp_path: Path) -> None:
    leaks = Leaks(make_keeper(tmp_path))
    assert leaks.leaks([(b"x", b"paddock_KEY_0")], "/", b"x", ELSEWHERE) is None
    assert leaks.watch(ELSEWHERE).feed(b"anything") is None
