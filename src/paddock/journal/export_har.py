"""The HTTP requests of a run as an HTTP archive (HAR 1.2), for tools of browsers and proxies.

Requests to models are among them. What Paddock answered itself is there as the agent got it: a
refusal has the status 403. Fields of our own begin with an underscore, as the format wants it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from paddock.journal.har_content import content, headers_of, text_of, type_of
from paddock.journal.reader import Reader, Step
from paddock.journal.repeats import Repeats, repeats_in
from paddock.journal.traffic import Traffic, mapping

_FORM = "application/x-www-form-urlencoded"
_OWN = ("kind", "verdict", "outcome", "parent")


def as_har(reader: Reader) -> Iterator[str]:
    """A log whose entries are the requests; with none of them it is empty."""
    creator = {"name": "paddock", "version": str(reader.opened().body.get("paddock", ""))}
    yield f'{{"log":{{"version":"1.2","creator":{json.dumps(creator)},"entries":['
    lead = ""
    for step in reader.steps():
        one = Traffic.of(step, reader.body)
        if one is not None and one.is_http:
            yield lead + json.dumps(_entry(one) | _repeats(step))
            lead = ",\n"
    yield "]}}\n"


def _repeats(step: Step) -> dict[str, Any]:
    """Return how often the same request was refused again, without an entry for each."""
    total: Repeats | None = None
    for note in step.noted:
        again = repeats_in(note.body)
        total = total if again is None else again.plus(total)
    if total is None:
        return {}
    said = {"count": total.count, "first_at": total.first_at, "last_at": total.last_at}
    return {"_refusedAgain": said}


def _entry(one: Traffic) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "startedDateTime": datetime.fromtimestamp(one.at / 1e6, UTC).isoformat(),
        "time": (one.duration_us or 0) / 1000,
        "request": _request(one),
        "response": _response(one),
        "cache": {},
        "timings": _timings(one),
        "_step": one.step,
        **{f"_{key}": getattr(one, key) for key in _OWN},
        "_decidedBy": one.decided_by,
    }
    if (address := _address(one)) is not None:
        entry["serverIPAddress"] = address
    if said := one.error or (one.why if one.verdict != "allow" else None):
        entry["comment"] = said
    if one.kind == "model":
        entry["_model"] = _model(one)
    if "websocket" in one.result:
        entry["_websocket"] = one.result["websocket"]
    return entry


def _timings(one: Traffic) -> dict[str, float]:
    """What a person took to answer is time that the request was held."""
    whole_us = one.duration_us or 0
    held_us = min(one.held_us, whole_us)
    held = {"blocked": held_us / 1000} if held_us else {}
    return {**held, "send": 0, "wait": (whole_us - held_us) / 1000, "receive": 0}


def _request(one: Traffic) -> dict[str, Any]:
    arguments = one.arguments
    headers = headers_of(arguments.get("headers"))
    request: dict[str, Any] = {
        "method": one.method or "GET",
        "url": one.url,
        "httpVersion": _version(arguments),
        "cookies": [],
        "headers": headers,
        "queryString": _query(one.url),
        "headersSize": -1,
        "bodySize": _body_size(one, headers),
    }
    if arguments.get("body") is not None:
        request["postData"] = _post_data(arguments["body"], type_of(headers))
    return request


def _body_size(one: Traffic, headers: list[dict[str, str]]) -> int:
    if one.body_bytes is not None:
        return one.body_bytes
    said = {header["name"].lower(): header["value"] for header in headers}
    length = said.get("content-length", "")
    if length.isascii() and length.isdigit():
        return int(length[:15])
    return -1 if one.kind == "model" or "transfer-encoding" in said else 0


def _post_data(body: Any, kind: str) -> dict[str, Any]:
    """A form is a list of its fields, anything else a text. The format wants one of the two."""
    if kind.partition(";")[0].strip().lower() == _FORM and isinstance(body, Mapping):
        fields = [
            {"name": str(name), "value": text_of(value)}
            for name, values in body.items()
            for value in (values if isinstance(values, list) else [values])
        ]
        return {"mimeType": kind, "params": fields}
    return {"mimeType": kind, "text": text_of(body)}


def _response(one: Traffic) -> dict[str, Any]:
    result = one.result
    headers = headers_of(result.get("headers"))
    status = one.status or 0  # the format's way to say that there was no answer
    location = (header["value"] for header in headers if header["name"].lower() == "location")
    size = one.bytes_in if "bytes" in result else None
    return {
        "status": status,
        "statusText": HTTPStatus(status).phrase if status in list(HTTPStatus) else "",
        "httpVersion": _version(result),
        "cookies": [],
        "headers": headers,
        "content": content(result, headers),
        "redirectURL": next(location, ""),
        "headersSize": -1,
        "bodySize": -1 if size is None else size,
    }


def _model(one: Traffic) -> dict[str, Any]:
    """Who was asked, and what it cost; the conversation is in the journal."""
    asked = {key: one.arguments.get(key) for key in ("provider", "api", "model", "prompt_digest")}
    answer = mapping(one.result.get("answer"))
    return {**asked, "stopReason": answer.get("stop_reason"), **one.cost}


def _version(said: Mapping[str, Any]) -> str:
    version = said.get("http_version")
    return version if isinstance(version, str) else "HTTP/1.1"


def _address(one: Traffic) -> str | None:
    """Of a server that was really spoken to. A host that is an address is not repeated there."""
    found = one.address or (one.host if one.outcome in ("done", "failed") else "")
    try:
        return str(ip_address(found))
    except ValueError:
        return None


def _query(url: str) -> list[dict[str, str]]:
    try:
        pairs = parse_qsl(urlsplit(url).query, keep_blank_values=True)
    except ValueError:  # an agent may ask for anything
        return []
    return [{"name": name, "value": value} for name, value in pairs]
