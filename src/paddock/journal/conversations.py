"""The requests to a model, each message stored once. A conversation is sent whole with every turn;
here it is a chain of nodes, each with the digest of the one before, like commits: a turn adds what
is new. The arguments of the action name the last node, so the chain of records holds all of it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from paddock.journal.canonical import canonical_text, plain_text
from paddock.journal.plain_values import MAX_VALUE_DEPTH, as_json
from paddock.model.errors import IntegrityError

if TYPE_CHECKING:
    from paddock.journal.log import RunLog
    from paddock.journal.nodes import NodeReader
    from paddock.journal.secrets.value_hmac import ValueHmac

CONVERSATION = ("conversation", "request", "refs")  # what names the parts of a request
MAX_MESSAGES = 20_000
# Of all that is read back of one conversation. A request has 8 MiB at most; escapes make it longer.
MAX_READ_BYTES = 64 << 20
# They come again with every turn, so they are kept once, whatever their size.
_REPEATED = frozenset({"system", "instructions", "tools", "functions"})
_LONG = 1 << 10  # characters; any other part of a request that is longer is kept once, too
_MAX_KNOWN = 1 << 15  # nodes that are not written again; more than a conversation has

Keep = Callable[[Mapping[str, Any], "ValueHmac | None"], str]


class Conversations:
    """The conversations of one run as they are kept. `keep` masks a node and writes it."""

    def __init__(self, keep: Keep) -> None:
        self._keep = keep
        self._known: OrderedDict[bytes, str] = OrderedDict()

    def request(
        self, body: Mapping[str, Any], of: str, keyed: ValueHmac | None = None
    ) -> dict[str, Any]:
        """Return the arguments of an action for a request's body, whose messages are under `of`.
        Raises JournalBroken. What is new is on disk when the record that names it is."""
        conversation: dict[str, Any] = {}
        rest = dict(body)
        messages = body.get(of)
        if isinstance(messages, list | str):
            del rest[of]
            conversation["conversation"] = self._conversation(messages, of, keyed)
        refs = {key: self._node(None, rest.pop(key), keyed) for key in body if _is_apart(key, rest)}
        return {**conversation, "request": rest, **({"refs": refs} if refs else {})}

    def add(self, messages: Sequence[Any], keyed: ValueHmac | None = None) -> dict[str, Any]:
        """Store the messages of a conversation; return where it ends."""
        if len(messages) > MAX_MESSAGES:
            return {"count": len(messages), "is_cut": True}
        last: str | None = None
        for message in messages:
            last = self._node(last, message, keyed)
        return {"count": len(messages), "last": last}

    def _conversation(
        self, messages: list[Any] | str, of: str, keyed: ValueHmac | None
    ) -> dict[str, Any]:
        if isinstance(messages, str):
            return {"of": of, "is_text": True, **self.add([messages], keyed)}
        return {"of": of, **self.add(messages, keyed)}

    def _node(self, before: str | None, message: Any, keyed: ValueHmac | None) -> str:
        text = plain_text(message, MAX_VALUE_DEPTH)
        plain = message
        if text is None:
            plain = as_json(message)
            text = canonical_text(plain)
        # By what was sent, not by what is kept of it: to mask all of it again would take longest.
        key = sha256(f"{before}:{text}".encode()).digest()
        if (digest := self._known.get(key)) is not None:
            self._known.move_to_end(key)
            return digest
        digest = self._keep({"before": before, "message": plain}, keyed)
        self._known[key] = digest
        if len(self._known) > _MAX_KNOWN:
            self._known.popitem(last=False)
        return digest


def conversation_of(log: RunLog, arguments: Mapping[str, Any]) -> list[Any]:
    """Return the messages that an action's arguments name, oldest first, checked by their digests.
    Raises NotFound or IntegrityError."""
    return _Chain(log.nodes).messages(_conversation(arguments))


def whole_arguments(log: RunLog, kind: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments of a request as rules saw them, where its journal only names the
    messages."""
    if kind != "http" or "conversation" not in arguments:
        return arguments
    left = {key: one for key, one in arguments.items() if key not in CONVERSATION}
    return {**left, "body": request_of(log, arguments)}


def request_of(log: RunLog, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a request to a model as it was sent, as far as it was stored: secrets are
    masked, and numbers that JSON cannot write exactly are texts."""
    body = dict(arguments.get("request") or {})
    chain = _Chain(log.nodes)
    for key, digest in _refs(arguments).items():
        body[key] = chain.value(digest)
    about = arguments.get("conversation")
    if isinstance(about, Mapping) and isinstance(about.get("of"), str):
        messages = chain.messages(_conversation(arguments))
        body[about["of"]] = messages[0] if about.get("is_text") and messages else messages
    return body


class ChainCheck:
    """Checks what the actions of one journal name; a node that was checked is not read again."""

    def __init__(self, nodes: NodeReader) -> None:
        self._nodes = nodes
        self._depths: dict[str, int] = {}

    @property
    def count(self) -> int:
        return len(self._depths)

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Raises NotFound or IntegrityError."""
        for digest in _refs(arguments).values():
            self._depth(digest)
        about = _conversation(arguments)
        last = about.get("last")
        if last is not None and self._depth(last) != about.get("count"):
            raise IntegrityError(f"the conversation that ends with {last} has another length")

    def _depth(self, last: str) -> int:
        way: list[str] = []
        at: str | None = last
        while at is not None and at not in self._depths:
            way.append(at)
            if len(way) > MAX_MESSAGES:
                raise IntegrityError(f"a conversation has more than {MAX_MESSAGES} messages")
            at = _before(self._nodes.read(at, MAX_READ_BYTES)[0], at)
        depth = 0 if at is None else self._depths[at]
        for digest in reversed(way):
            depth += 1
            self._depths[digest] = depth
        return self._depths[last]


class _Chain:
    """Reads nodes, as many bytes as one request may have."""

    def __init__(self, nodes: NodeReader) -> None:
        self._nodes = nodes
        self._room = MAX_READ_BYTES

    def value(self, digest: str) -> Any:
        return self._read(digest)["message"]

    def messages(self, about: Mapping[str, Any]) -> list[Any]:
        messages: list[Any] = []
        at = about.get("last")
        while at is not None:
            if len(messages) >= MAX_MESSAGES:
                raise IntegrityError(f"a conversation has more than {MAX_MESSAGES} messages")
            node = self._read(at)
            messages.append(node["message"])
            at = _before(node, at)
        if "last" in about and len(messages) != about.get("count"):
            raise IntegrityError("a conversation has another length than was recorded")
        return messages[::-1]

    def _read(self, digest: str) -> Mapping[str, Any]:
        node, size = self._nodes.read(digest, self._room)
        self._room -= size
        _before(node, digest)
        return node


def _is_apart(key: str, rest: Mapping[str, Any]) -> bool:
    value = rest.get(key)
    if not isinstance(value, str | list | dict) or not value:
        return False
    return key in _REPEATED or len(value if isinstance(value, str) else _json_text(value)) > _LONG


def _json_text(value: Any) -> str:
    text = plain_text(value, MAX_VALUE_DEPTH)
    return canonical_text(as_json(value)) if text is None else text


def _before(node: Mapping[str, Any], digest: str) -> str | None:
    before = node.get("before")
    if "message" not in node or not (before is None or isinstance(before, str)):
        raise IntegrityError(f"what is named {digest} is no message")
    return before


def _conversation(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    about = arguments.get("conversation")
    if about is None:
        return {}
    if not isinstance(about, Mapping) or not isinstance(about.get("last"), str | None):
        raise IntegrityError("this is no conversation that was kept")
    return about


def _refs(arguments: Mapping[str, Any]) -> dict[str, str]:
    refs = arguments.get("refs", {})
    if not isinstance(refs, dict) or not all(isinstance(digest, str) for digest in refs.values()):
        raise IntegrityError("this is no request that was kept")
    return refs
