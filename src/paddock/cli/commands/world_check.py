"""`paddock world check`: how close a stand-in is to the real thing, from recorded traffic or from
reads of the real host. Ends with 1 when the number is below --min.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.cli.exit_codes import ExitCode
from paddock.cli.output import say, say_json
from paddock.cli.parser import CommandParser, command
from paddock.model.errors import HostCannot, InvalidInput

if TYPE_CHECKING:
    from paddock.world.fidelity.exchanges import Exchange
    from paddock.world.fidelity.report import Fidelity

_TIMEOUT_S = 20.0
_MAX_REQUESTS = 1000
_MAX_BODY = 8 << 20
_READS = ("GET", "HEAD")
_OVERRIDES = frozenset({"x-http-method-override", "x-http-method", "x-method-override"})
_ENV = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)$")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock world check", description=__doc__)
    parser.add_argument("service", metavar="SERVICE", help="a stand-in: payments, openapi, ...")
    parser.add_argument("--against", required=True, metavar="HOST|FILE.har",
                        help="a recording, or a host of which --requests are read")  # fmt: skip
    parser.add_argument("--requests", type=Path, metavar="FILE",
                        help="for a HOST: a line each, GET /path; or a HAR, of which the reads are"
                        " taken")  # fmt: skip
    parser.add_argument("--host", metavar="NAME", help="of the recording, if it has several")
    parser.add_argument("--seed", metavar="FILE", help="what the stand-in begins with")
    parser.add_argument("--spec", metavar="FILE", help="the document of an openapi stand-in")
    parser.add_texts(
        "--option",
        metavar="NAME=VALUE",
        help="another word of the stand-in; lists and numbers as JSON",
    )
    parser.add_texts(
        "--header",
        metavar="NAME: VALUE",
        help="sent with each request; env:VAR at its end is the value of a"
        " variable, which only the real host gets",
    )
    parser.add_argument("--min", type=float, metavar="N", help="end with 1 below this number")
    parser.add_json("for programs")
    return parser


@command(make_parser)
def main(options: argparse.Namespace) -> int:
    fidelity = _check(options)
    if options.json:
        say_json(fidelity.as_json())
    else:
        say("\n".join(fidelity.lines()))
    return ExitCode.FAILED if options.min is not None and fidelity.score < options.min else 0


def _check(options: argparse.Namespace) -> Fidelity:
    import asyncio
    import tempfile

    from paddock.cli.options import pair
    from paddock.world.fidelity.check import CheckedStandIn, check

    headers = [_header(text) for text in options.header]
    exchanges, against = _exchanges(options, headers)
    service_options = {
        name: _value(text) for name, text in (pair(text, "--option") for text in options.option)
    }
    if options.spec is not None:
        service_options["spec"] = options.spec
    shown = tuple(
        (name.encode(), _ENV.sub("paddock", value).encode("latin-1")) for name, value in headers
    )
    subject = CheckedStandIn(options.service, service_options, options.seed, shown)
    with tempfile.TemporaryDirectory(prefix="paddock-check-") as directory:
        return asyncio.run(check(subject, exchanges, against, Path(directory)))


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _exchanges(
    options: argparse.Namespace, headers: Sequence[tuple[str, str]]
) -> tuple[list[Exchange], str]:
    from paddock.world.fidelity.exchanges import of_host, read_archive

    path = Path(options.against)
    if path.suffix.lower() == ".har" or path.is_file():
        host, exchanges = of_host(read_archive(path), options.host)
        return exchanges, f"{path.name} ({host})"
    if options.requests is None:
        raise InvalidInput("--against a host needs --requests FILE", hint="or name a HAR file")
    real = [(name, _reveal(value)) for name, value in headers]
    requests = _requests(options.requests, options.host)
    return [
        _read(options.against, method, target, real) for method, target in requests
    ], options.against


def _requests(path: Path, host: str | None) -> list[tuple[str, str]]:
    """Return the reads of a file. Other requests of an archive are left out, lines refused."""
    from paddock.world.fidelity.exchanges import of_host, read_archive

    if path.suffix.lower() == ".har":
        _, exchanges = of_host(read_archive(path), host)
        requests = [
            (exchange.method, exchange.path + (f"?{exchange.query}" if exchange.query else ""))
            for exchange in exchanges
        ]
        requests = [request for request in requests if request[0] in _READS]
    else:
        with path.open(encoding="utf-8") as file:
            lines = file.read(1 << 20).splitlines()
        requests = [_line(line) for line in map(str.strip, lines) if line and line[0] != "#"]
    if not requests or len(requests) > _MAX_REQUESTS:
        raise InvalidInput(f"{path}: {len(requests)} reads, from 1 to {_MAX_REQUESTS} are possible")
    return list(dict.fromkeys(requests))


def _line(line: str) -> tuple[str, str]:
    method, _, target = line.partition(" ") if " " in line else ("GET", "", line)
    if method not in _READS or not re.fullmatch(r"/[!-~]*", target.strip()):
        raise InvalidInput(f"{line!r} is not GET /path: the real host is only read")
    return method, target.strip()


def _read(host: str, method: str, target: str, headers: Sequence[tuple[str, str]]) -> Exchange:
    """Read once from the real host. Redirects are not followed."""
    import contextlib
    import http.client
    from urllib.parse import urlsplit

    from paddock.world.fidelity.exchanges import Exchange

    assert method in _READS
    connection = _connection(host)
    parts = urlsplit(target)
    with contextlib.closing(connection):
        try:
            sent = {"Accept": "application/json", **dict(headers), "Accept-Encoding": "identity"}
            connection.request(method, target, headers=sent)
            answer = connection.getresponse()
            body = answer.read(_MAX_BODY + 1)
        except (OSError, http.client.HTTPException) as error:
            raise HostCannot(
                f"{method} {host}{parts.path}: {error or type(error).__name__}"
            ) from None
    plain = [(n.lower().encode("latin-1"), v.encode("latin-1")) for n, v in answer.getheaders()]
    return Exchange(method, connection.host, parts.path, parts.query,
                    status=answer.status, answer_headers=plain, answer=body)  # fmt: skip


def _connection(host: str) -> Any:
    """Return a connection over HTTPS; plain HTTP only to this machine."""
    import http.client
    from urllib.parse import urlsplit

    scheme, _, rest = host.rpartition("://")
    try:
        parts = urlsplit(f"//{rest}")
        name, port = parts.hostname, parts.port
    except ValueError:
        name, port = None, None
    if not name or parts.path not in ("", "/") or parts.username is not None:
        raise InvalidInput(f"--against: {host!r} is no host and no HAR file")
    if scheme == "http":
        if name not in _LOOPBACK:
            raise InvalidInput(f"--against: {name} is asked by https only")
        return http.client.HTTPConnection(name, port, timeout=_TIMEOUT_S)
    if scheme not in ("", "https"):
        raise InvalidInput(f"--against: {scheme} is not https")
    return http.client.HTTPSConnection(name, port, timeout=_TIMEOUT_S)


def _header(text: str) -> tuple[str, str]:
    """Parse `NAME: VALUE`. No message has any part of the value."""
    name, colon, value = text.partition(":")
    name, value = name.strip().lower(), value.strip()
    if not colon or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9a-z-]+", name):
        raise InvalidInput("--header: is not NAME: VALUE")
    if name in _OVERRIDES:
        raise InvalidInput(f"--header: {name} would make a read a write")
    if not re.fullmatch(r"[ -~\t]*", value):
        raise InvalidInput(f"--header: the value of {name} is no text for a header")
    return name, value


def _reveal(value: str) -> str:
    match = _ENV.search(value)
    if match is None:
        return value
    secret = os.environ.get(match[1])
    if not secret:
        raise InvalidInput(f"--header: there is no variable {match[1]}")
    return value[: match.start()] + secret.strip()
