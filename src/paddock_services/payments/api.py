"""The API of an account over HTTP: keys, parameters, errors, and idempotency keys.

A write with an idempotency key is answered, not done, when the same request comes again. There are
four outcomes of a write, and the key remembers all but the last:

1. it succeeds: what it wrote stays;
2. it is `Declined`: what it wrote stays too, since the failed attempt is part of the history;
3. it is a `Conflict` with the present state: nothing stays but the key;
4. it is another `Refusal`: nothing stays, and the key is still free.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from paddock.world.kit import Api, Call, Reply, RequestError, Route, TooLarge, UnknownPath
from paddock_services.payments.account import KEYS, Account, Document
from paddock_services.payments.errors import Conflict, Declined, Refusal
from paddock_services.payments.expansion import expand
from paddock_services.payments.form import decode
from paddock_services.payments.params import Params

_VERSION = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(\.[a-z_]{1,40})?(;.{0,200})?")
# A placeholder stands for a key where the door has not put the key in.
_KEYS = ("sk_", "rk_", "paddock_")
_FORM = "application/x-www-form-urlencoded"
_MAX_KEY = 255
_KEPT_S = 86_400
# The parameters that each operation has. Some have no effect here; all others are refused.
_PARAMETERS: dict[str, list[str]] = json.loads(
    Path(__file__).with_name("parameters.json").read_bytes()
)


class PaymentRequest(msgspec.Struct, frozen=True):
    """The parts of a request that an operation needs: its parameters, and the id in its path."""

    params: Params
    id: str = ""
    path: str = ""


# An operation returns a document, or one as it is stored.
Function = Callable[[Account, PaymentRequest], Document | msgspec.Raw]


class Operation(msgspec.Struct, frozen=True):
    """A method and a path below /v1, with `{id}` for an id."""

    method: str
    path: str
    function: Function

    @property
    def parameters(self) -> frozenset[str]:
        """Return the names of the parameters that it has."""
        return frozenset({"expand", *_PARAMETERS.get(f"{self.method} {self.path}", ())})


class PaymentsApi(Api):
    """The application of one account."""

    def __init__(self, account: Account, operations: list[Operation]) -> None:
        self._account = account
        self._reads = 0  # requests that wrote nothing: their ids are in no document
        routes = [
            Route(
                operation.method,
                f"/v1/{operation.path}",
                partial(self._run, operation, operation.parameters),
            )
            for operation in operations
        ]
        super().__init__(account.store, routes)

    def authenticate(self, call: Call) -> None:
        """Raise Refusal for a key that is not a secret one."""
        basic = call.basic_credentials
        key = call.bearer_token if basic is None else basic[0]
        if not key:
            message = "You did not provide an API key. Give it in the Authorization header."
            raise Refusal(message, status=401)
        if key.startswith("pk_"):
            message = "This API call cannot be made with a publishable API key. Use a secret one."
            raise Refusal(message, status=401, code="secret_key_required")
        if not key.startswith(_KEYS):
            shown = key[:3] + "*" * 8 + key[-4:] if len(key) > 12 else "*" * len(key)
            raise Refusal(f"Invalid API Key provided: {shown}", status=401)
        version = call.headers.get("stripe-version", "")
        if version and not _VERSION.fullmatch(version):
            raise Refusal(f"Invalid Stripe API version: {version[:100]}")

    def refuse(self, call: Call, error: RequestError) -> Reply:
        """Return an error in Stripe's shape."""
        message = f"Invalid request: {error}."
        if isinstance(error, UnknownPath):
            message = (
                f"Unrecognized request URL ({call.method}: {call.path[:500]}). "
                "See https://stripe.com/docs for the addresses that exist."
            )
        elif isinstance(error, TooLarge):
            message = f"The request is larger than {self.max_body} bytes."
        return Refusal(message, status=error.status).reply

    def finish(self, call: Call, reply: Reply) -> Reply:
        """Add the headers that every answer has."""
        headers = {
            "stripe-version": call.headers.get("stripe-version") or self._account.version,
            "cache-control": "no-cache, no-store",
            **reply.headers,
        }
        if "request-id" not in headers:
            headers["request-id"] = self._read_id()
        return Reply(reply.body, reply.status, headers)

    def _run(self, operation: Operation, parameters: frozenset[str], call: Call) -> Reply:
        params = Params(_decode_params(call))
        params.refuse_unknown(parameters)
        request = PaymentRequest(params, call.params.get("id", ""), call.path)
        if call.method in ("GET", "HEAD"):
            return Reply(self._perform(operation, request))
        key = call.headers.get("idempotency-key", "")
        if not key or call.method != "POST":
            return self._write(operation, request)
        return self._write_once(key, operation, request)

    def _write(self, operation: Operation, request: PaymentRequest) -> Reply:
        self._account.begin_write()
        headers = {"request-id": self._account.request_id or ""}
        try:
            return Reply(self._perform(operation, request), 200, headers)
        except Declined as declined:
            return Reply(declined.reply.body, declined.reply.status, headers)

    def _perform(self, operation: Operation, request: PaymentRequest) -> Document | msgspec.Raw:
        document = operation.function(self._account, request)
        if "expand" not in request.params:
            return document
        if isinstance(document, msgspec.Raw):
            document = json.loads(bytes(document))
        return expand(self._account, document, request.params)

    def _write_once(self, key: str, operation: Operation, request: PaymentRequest) -> Reply:
        if len(key) > _MAX_KEY:
            message = f"Idempotency keys have at most {_MAX_KEY} characters."
            raise Refusal(message, type="idempotency_error")
        text = json.dumps(request.params.values, sort_keys=True, separators=(",", ":"))
        same = {"path": request.path, "params": hashlib.sha256(text.encode()).hexdigest()}
        earlier = self._account.find(KEYS, key)
        if earlier is not None and self._account.now() - earlier["created"] <= _KEPT_S:
            return _replay(key, earlier, same)
        try:
            with self._account.store.transaction():
                reply = self._write(operation, request)
        except Conflict as conflict:
            reply = conflict.reply
            reply = Reply(reply.body, reply.status, {"request-id": self._read_id()})
        body = msgspec.json.encode(reply.body)
        kept = {"status": reply.status, "body": body.decode(), "created": self._account.now()}
        kept["request"] = reply.headers["request-id"]
        self._account.put(KEYS, {"id": key, **same, **kept})
        return Reply(msgspec.Raw(body), reply.status, {"idempotency-key": key, **reply.headers})

    def _read_id(self) -> str:
        self._reads += 1
        return "req_" + self._account.derive(f"read/{self._reads}", 14)


def _replay(key: str, earlier: Document, same: Document) -> Reply:
    """Return the answer that a key has had. Raises Refusal when that was to another request."""
    message = None
    if earlier["path"] != same["path"]:
        message = (
            "Keys for idempotent requests can only be used for the same endpoint they were first "
            f"used for ('{earlier['path']}' and not '{same['path'][:200]}')."
        )
    elif earlier["params"] != same["params"]:
        message = (
            "Keys for idempotent requests can only be used with the same parameters they were "
            f"first used with. Use another key than '{key}' for another request."
        )
    if message is not None:
        raise Refusal(message, type="idempotency_error")
    headers = {"idempotency-key": key, "idempotent-replayed": "true"}
    headers["original-request"] = earlier["request"]
    return Reply(msgspec.Raw(earlier["body"].encode()), earlier["status"], headers)


def _decode_params(call: Call) -> Document:
    params = decode(call.query_string) if call.query_string else {}
    if not call.body:
        return params
    if call.content_type not in ("", _FORM):
        raise Refusal(f"Invalid request: check that your POST content type is {_FORM}.")
    return {**params, **decode(call.body.decode("utf-8", "replace"))}
