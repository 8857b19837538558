"""Answers that Paddock itself gives: a refusal, a fault, a draft, a failure on the way."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from paddock.doors.network.exchange import HttpExchange
from paddock.doors.network.faults.layers import tell_fault
from paddock.gate.executors import Fault
from paddock.model.action import Outcome, Receipt

_JSON = (b"content-type", b"application/json")
_MARK = b"x-paddock"  # says that the answer is ours, and which kind


async def answer_receipt(exchange: HttpExchange, receipt: Receipt) -> None:
    """Answer a request that nobody has answered with what its receipt says."""
    match receipt.outcome:
        case Outcome.FAULTED:
            await _tell_fault(exchange, receipt)
        case Outcome.DRAFTED:
            body = {"draft": receipt.draft_id, "message": "It was written down as a draft."}
            await _answer_json(exchange, 202, "draft", body)
        case Outcome.FAILED:  # of ours: what it was is in the journal, and not for the agent
            await answer_failure(exchange, 502, "The request could not be carried out.")
        case _:
            await answer_refusal(exchange, receipt)


async def _answer_json(
    exchange: HttpExchange, status: int, mark: str, body: Mapping[str, Any]
) -> None:
    raw = json.dumps(body, indent=2).encode() + b"\n"
    headers = [_JSON, (_MARK, mark.encode()), (b"content-length", str(len(raw)).encode())]
    await exchange.begin(status, headers)
    if exchange.request.method != "HEAD":
        await exchange.send(raw)
    await exchange.finish()


async def answer_failure(exchange: HttpExchange, status: int, why: str) -> None:
    """Tell the client that the server could not be asked, or did not answer."""
    await _answer_json(
        exchange, status, "upstream", {"error": {"type": "upstream", "message": why}}
    )


async def answer_refusal(exchange: HttpExchange, receipt: Receipt, status: int = 403) -> None:
    """Tell the client that the request was refused, and why, in words meant for the agent."""
    error: dict[str, Any] = {"type": "blocked", "message": receipt.error or "It was refused."}
    if receipt.decision is not None:
        error["rule"] = receipt.decision.decided_by
    error["step"] = receipt.step
    await _answer_json(exchange, status, "block", {"error": error})


async def _tell_fault(exchange: HttpExchange, receipt: Receipt) -> None:
    fault = receipt.decision.fault if receipt.decision is not None else None
    if fault is not None and "id" in fault:
        await tell_fault(exchange, fault)
        return
    error = receipt.exception
    status = error.status if isinstance(error, Fault) else None
    message = receipt.error or "The service failed."
    await _answer_json(exchange, status or 503, "fault", {"error": {"message": message}})
