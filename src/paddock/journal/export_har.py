"""The HTTP requests of a run as an HTTP archive (HAR 1.2), for tools of browsers and proxies."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from paddock.journal.export_csv import duration_us
from paddock.journal.reader import Reader, Step


def as_har(reader: Reader) -> Iterator[str]:
    """A log whose entries are the steps of kind `http`; with none of them it is empty."""
    creator = {"name": "paddock", "version": str(reader.opened().body.get("paddock", ""))}
    yield f'{{"log":{{"version":"1.2","creator":{json.dumps(creator)},"entries":['
    lead = ""
    for step in reader.steps():
        if step.proposed is not None and step.proposed.body.get("kind") == "http":
            yield lead + json.dumps(_entry(reader, step))
            lead = ",\n"
    yield "]}}\n"


def _entry(reader: Reader, step: Step) -> dict[str, Any]:
    assert step.proposed is not None
    settled = reader.body(step.settled) if step.settled else {}
    time_ms = (duration_us(step) or 0) / 1000
    return {
        "startedDateTime": datetime.fromtimestamp(step.proposed.at / 1e6, UTC).isoformat(),
        "time": time_ms,
        "request": _request(_mapping(reader.body(step.proposed).get("arguments"))),
        "response": _response(settled),
        "cache": {},
        "timings": {"send": 0, "wait": time_ms, "receive": 0},
        "_step": step.number,
        "_verdict": step.decided.body.get("verdict") if step.decided else None,
        "_outcome": settled.get("outcome"),
    }


def _request(arguments: Mapping[str, Any]) -> dict[str, Any]:
    url = str(arguments.get("url") or _joined_url(arguments))
    headers = _headers(arguments.get("headers"))
    request: dict[str, Any] = {
        "method": str(arguments.get("method", "GET")),
        "url": url,
        "httpVersion": str(arguments.get("http_version", "HTTP/1.1")),
        "cookies": [],
        "headers": headers,
        "queryString": _pairs(parse_qsl(_query(url), keep_blank_values=True)),
        "headersSize": -1,
        "bodySize": -1,
    }
    body = arguments.get("body")
    if body is not None:
        text = _text(body)
        request["postData"] = {"mimeType": _content_type(headers), "text": text}
        request["bodySize"] = len(text.encode())
    return request


def _response(settled: Mapping[str, Any]) -> dict[str, Any]:
    result = _mapping(settled.get("result"))
    headers = _headers(result.get("headers"))
    text = _text(result.get("body", ""))
    content = {"size": len(text.encode()), "mimeType": _content_type(headers), "text": text}
    status = result.get("status")
    return {
        "status": status if isinstance(status, int) else 0,
        "statusText": str(settled.get("error") or ""),
        "httpVersion": str(result.get("http_version", "HTTP/1.1")),
        "cookies": [],
        "headers": headers,
        "content": content,
        "redirectURL": next((h["value"] for h in headers if h["name"].lower() == "location"), ""),
        "headersSize": -1,
        "bodySize": -1,
    }


def _joined_url(arguments: Mapping[str, Any]) -> str:
    scheme, host = arguments.get("scheme", "https"), arguments.get("host", "")
    return f"{scheme}://{host}{arguments.get('path', '/')}"


def _query(url: str) -> str:
    try:
        return urlsplit(url).query
    except ValueError:  # an agent may ask for anything
        return ""


def _headers(headers: Any) -> list[dict[str, str]]:
    if isinstance(headers, Mapping):
        return _pairs(headers.items())
    if isinstance(headers, list):
        return _pairs(pair for pair in headers if isinstance(pair, list) and len(pair) == 2)
    return []


def _pairs(pairs: Any) -> list[dict[str, str]]:
    return [{"name": str(name), "value": _text(value)} for name, value in pairs]


def _content_type(headers: list[dict[str, str]]) -> str:
    found = (h["value"] for h in headers if h["name"].lower() == "content-type")
    return next(found, "application/octet-stream")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
