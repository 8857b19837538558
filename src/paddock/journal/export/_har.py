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

from paddock.journal.codec import body_of
from paddock.journal.export._har_content import content, headers_of, text_of, type_of
from paddock.journal.log import RunLog
from paddock.journal.traffic import Traffic, mapping
from paddock.model.action import Kind, Outcome, Verdict
from paddock.model.steps import Step

_FORM = "application/x-www-form-urlencoded"


def as_har(log: RunLog) -> Iterator[str]:
    """Yield a log whose entries are the requests; with none of them it is empty."""
    creator = {"name": "paddock", "version": log.opened.paddock}
    yield f'{{"log":{{"version":"1.2","creator":{json.dumps(creator)},"entries":['
    lead = ""
    for step in log.steps():
        if step.kind in (Kind.HTTP, Kind.MODEL):
            yield lead + json.dumps(_entry(Traffic(log.whole_step(step))))
            lead = ",\n"
    yield "]}}\n"


def _entry(request: Traffic) -> dict[str, Any]:
    step = request.step
    entry: dict[str, Any] = {
        "startedDateTime": datetime.fromtimestamp(step.at / 1e6, UTC).isoformat(),
        "time": (step.waited_us or 0) / 1000,
        "request": _request(request),
        "response": _response(request),
        "cache": {},
        "timings": _timings(step),
        "_step": step.number,
        "_kind": step.kind,
        "_verdict": step.verdict,
        "_outcome": step.outcome,
        "_parent": step.parent,
        "_decidedBy": step.decided_by,
    }
    address = _address(request)
    if address is not None:
        entry["serverIPAddress"] = address
    why = step.why if step.verdict is not Verdict.ALLOW else None
    if step.error or why:
        entry["comment"] = step.error or why
    if step.kind is Kind.MODEL:
        entry["_model"] = _model(step)
    if "websocket" in step.result:
        entry["_websocket"] = step.result["websocket"]
    if step.repeats is not None:  # the same request, refused again without an entry for each
        entry["_refusedAgain"] = body_of(step.repeats)
    return entry


def _timings(step: Step) -> dict[str, float]:
    """Return the timings. The time that a person took to answer is time that it was held."""
    whole_us = step.waited_us or 0
    held_us = min(step.held_us, whole_us)
    held = {"blocked": held_us / 1000} if held_us else {}
    return {**held, "send": 0, "wait": (whole_us - held_us) / 1000, "receive": 0}


def _request(request: Traffic) -> dict[str, Any]:
    arguments = request.step.arguments
    headers = headers_of(arguments.get("headers"))
    entry: dict[str, Any] = {
        "method": request.method or "GET",
        "url": request.url,
        "httpVersion": _version(arguments),
        "cookies": [],
        "headers": headers,
        "queryString": _query(request.url),
        "headersSize": -1,
        "bodySize": _body_size(request, headers),
    }
    if arguments.get("body") is not None:
        entry["postData"] = _post_data(arguments["body"], type_of(headers))
    return entry


def _body_size(request: Traffic, headers: list[dict[str, str]]) -> int:
    if request.body_bytes is not None:
        return request.body_bytes
    values = {header["name"].lower(): header["value"] for header in headers}
    length = values.get("content-length", "")
    if length.isascii() and length.isdigit():
        return int(length[:15])
    is_unknown = request.step.kind is Kind.MODEL or "transfer-encoding" in values
    return -1 if is_unknown else 0


def _post_data(body: Any, kind: str) -> dict[str, Any]:
    """Return a form as a list of its fields, anything else as a text. The format wants one of the
    two."""
    if kind.partition(";")[0].strip().lower() == _FORM and isinstance(body, Mapping):
        fields = [
            {"name": str(name), "value": text_of(value)}
            for name, values in body.items()
            for value in (values if isinstance(values, list) else [values])
        ]
        return {"mimeType": kind, "params": fields}
    return {"mimeType": kind, "text": text_of(body)}


def _response(request: Traffic) -> dict[str, Any]:
    result = request.step.result
    headers = headers_of(result.get("headers"))
    status = request.status or 0  # the format's way to say that there was no answer
    location = (header["value"] for header in headers if header["name"].lower() == "location")
    size = request.bytes_in if "bytes" in result else None
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


def _model(step: Step) -> dict[str, Any]:
    """Return which model was called, and what it cost; the conversation is in the journal."""
    request = {
        key: step.arguments.get(key) for key in ("provider", "api", "model", "prompt_digest")
    }
    answer = mapping(step.result.get("answer"))
    return {**request, "stopReason": answer.get("stop_reason"), **step.cost}


def _version(message: Mapping[str, Any]) -> str:
    version = message.get("http_version")
    return version if isinstance(version, str) else "HTTP/1.1"


def _address(request: Traffic) -> str | None:
    """Return the address of a server that was really spoken to. The result does not repeat the
    address of a host that is one itself."""
    address = request.address
    if not address and request.step.outcome in (Outcome.DONE, Outcome.FAILED):
        address = request.host
    try:
        return str(ip_address(address or ""))
    except ValueError:
        return None


def _query(url: str) -> list[dict[str, str]]:
    try:
        pairs = parse_qsl(urlsplit(url).query, keep_blank_values=True)
    except ValueError:  # an agent may ask for anything
        return []
    return [{"name": name, "value": value} for name, value in pairs]
