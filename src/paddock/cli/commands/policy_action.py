"""The action that the words of `paddock policy explain` describe. What the network door would
propose is built by its own code.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from paddock.model.action import Action, Effect, Kind
from paddock.model.errors import InvalidInput
from paddock.policy.decide import CONTAINED_KINDS
from paddock.policy.reach import usually_reversible

if TYPE_CHECKING:
    from paddock.doors.network.sample_request import SampleActions, SampleRequest
    from paddock.policy.decide import Policy

HOME_DIRECTORY = "/home/user"
_MAX_INPUT = 8 << 20  # of a body or an action: the network door reads no more either
_SHELL = frozenset(";&|<>()")
# Where a question to a model of these providers is usually sent.
_MODEL_URLS = {
    "openai": "https://api.openai.com/v1/chat/completions",
    "anthropic": "https://api.anthropic.com/v1/messages",
}
_URL_KEYS = ("url", "scheme", "host", "port", "path", "query")
_REQUEST_KEYS = ("kind", *_URL_KEYS, "method", "headers", "body", "effect", "reversible")


def described_action(options: argparse.Namespace, policy: Policy) -> Action | SampleActions:
    """Return the action that the options describe; of a request all that its door proposes."""
    if options.args is not None and options.tool is None:
        raise InvalidInput("--args: goes with --tool")
    if options.http is None and (options.body is not None or options.header):
        raise InvalidInput(f"--{'header' if options.header else 'body'}: goes with --http")
    if options.json_action is not None:
        return _from_json(options.json_action, policy)
    if options.http is not None:
        return _sample_actions(_sample_of(options), policy, "--http")
    if options.model is not None:
        return _model(options.model, policy)
    return _by_option(options)


def _by_option(options: argparse.Namespace) -> Action:
    if options.exec is not None:
        return exec_action(_words(options.exec))
    if options.tool is not None:
        arguments = {} if options.args is None else _object(options.args, "--args")
        return Action(Kind.TOOL, options.tool, arguments)
    if options.code is not None:
        return _code({"language": options.code})
    if options.connect is not None:
        host, _, port = options.connect.rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or len(port) > 5:
            raise InvalidInput(f"--connect: {options.connect!r} is not HOST:PORT")
        return _connect({"host": host, "port": int(port)})
    if options.dns is not None:
        return _dns({"name": options.dns})
    operation = "write" if options.file_read is None else "read"
    path = options.file_write if options.file_read is None else options.file_read
    return _file({"operation": operation, "path": path})


def _sample_of(options: argparse.Namespace) -> SampleRequest:
    """Return the request of `METHOD URL`, as one word or as two; a URL alone is a GET, or a POST if
    it has a body."""
    from paddock.doors.network.sample_request import SampleRequest

    parts = " ".join(options.http).split()
    if len(parts) == 1:
        parts = ["GET" if options.body is None else "POST", *parts]
    if len(parts) != 2:
        raise InvalidInput(
            f"--http: {' '.join(parts)[:100]!r} is not METHOD URL",
            hint="write --http 'POST https://example.com/path'",
        )
    headers = tuple(_header(text) for text in options.header)
    body = b"" if options.body is None else _input(options.body, "--body")
    return SampleRequest(parts[0].upper(), parts[1], headers, body)


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise InvalidInput(f"--header: {text[:80]!r} is not NAME: VALUE")
    return name.strip(), value.strip()


def _sample_actions(sample: SampleRequest, policy: Policy, option: str) -> SampleActions:
    from paddock.doors.network.sample_request import actions_of

    network = policy.network
    try:
        return actions_of(sample, () if network is None else network.graphql)
    except InvalidInput as error:
        raise InvalidInput(f"{option}: {error.message}", hint=error.hint) from None


def _model(text: str, policy: Policy) -> Action | SampleActions:
    from paddock.doors.network.sample_request import SampleRequest

    provider, slash, model = text.partition("/")
    if not slash or not provider or not model:
        raise InvalidInput(f"--model: {text!r} is not PROVIDER/MODEL")
    if provider not in _MODEL_URLS:
        return _model_action({"provider": provider, "model": model})
    body = json.dumps({"model": model, "messages": []}).encode()
    return _sample_actions(
        SampleRequest("POST", _MODEL_URLS[provider], body=body), policy, "--model"
    )


# ---- from JSON -----------------------------------------------------------------------------------


def _from_json(text: str, policy: Policy) -> Action | SampleActions:
    """Return the action of a JSON object: as an example of a rule, or whole, as in the journal."""
    content = _object(text, "--action")
    if "kind" not in content:  # a record of the journal, or what explain and replay print
        content = next((v for k in ("body", "action") if isinstance(v := content.get(k), dict)),
                       content)  # fmt: skip
    kind = content.get("kind")
    if kind is None:
        raise InvalidInput("--action: kind is missing", hint=f"it is one of {', '.join(Kind)}")
    if kind not in list(Kind):
        raise InvalidInput(f"--action: kind is one of {', '.join(Kind)}, not {kind!r}")
    try:
        if "arguments" in content:
            return _whole(Kind(kind), content)
        if kind == Kind.HTTP:
            return _request(content, policy)
        return _from_fields(Kind(kind), content)
    except InvalidInput as error:
        raise InvalidInput(f"--action: {error.message}", hint=error.hint) from None


def _whole(kind: Kind, content: Mapping[str, Any]) -> Action:
    name, arguments = content.get("name", ""), content["arguments"]
    context = content.get("context", {})
    if not isinstance(arguments, dict) or not isinstance(context, dict):
        raise InvalidInput("arguments and context are objects")
    effect = content.get("effect", _usual_effect(kind, arguments))
    if not isinstance(name, str) or effect not in list(Effect):
        raise InvalidInput("name is a text, effect one of read, write, admin")
    effect = Effect(effect)
    return Action(
        kind,
        name,
        arguments,
        effect,
        is_reversible=content.get("is_reversible", usually_reversible(kind, effect)) is True,
        is_contained=content.get("is_contained", kind in CONTAINED_KINDS) is True,
        context=context,
    )


def _usual_effect(kind: Kind, arguments: Mapping[str, Any]) -> Effect:
    """Return what a door says of such an action; a write where that cannot be told."""
    from paddock.policy.fields import READ_OPERATIONS

    is_read = (
        kind in (Kind.DNS, Kind.TOOL, Kind.MODEL)  # of a tool, the file says more
        or (kind is Kind.FILE and arguments.get("operation") in READ_OPERATIONS)
        or (kind is Kind.HTTP and arguments.get("method") in ("GET", "HEAD", "OPTIONS", "TRACE"))
    )
    return Effect.READ if is_read else Effect.WRITE


def _from_fields(kind: Kind, content: Mapping[str, Any]) -> Action:
    """Return an action by its fields, as an example of a rule has them, with its door's effect."""
    from paddock.policy.analysis.examples import known_keys

    _check_keys(kind, content, known_keys(kind))
    build = {
        Kind.EXEC: _exec,
        Kind.FILE: _file,
        Kind.CODE: _code,
        Kind.CONNECT: _connect,
        Kind.DNS: _dns,
        Kind.MODEL: _model_action,
        Kind.TOOL: _tool,
    }[kind]
    action = replace(build(content), context=_mapping(content, "context"))
    return _with_effect(action, content)


def _with_effect(action: Action, content: Mapping[str, Any]) -> Action:
    """Return the action with the effect that was given for it, if one was."""
    effect = content.get("effect", action.effect)
    if effect not in list(Effect):
        raise InvalidInput(f"{effect!r} is not an effect: read, write or admin")
    effect = Effect(effect)
    usual = action.is_reversible
    if effect is not action.effect:
        usual = usually_reversible(action.kind, effect)
    return replace(action, effect=effect, is_reversible=content.get("reversible", usual) is True)


def _request(content: Mapping[str, Any], policy: Policy) -> Action | SampleActions:
    from paddock.doors.network.request import written
    from paddock.doors.network.sample_request import SampleRequest

    _check_keys(Kind.HTTP, content, _REQUEST_KEYS)
    headers = content.get("headers", {})
    if not isinstance(headers, dict) or not all(isinstance(v, str) for v in headers.values()):
        raise InvalidInput("headers is an object of texts")
    body = content.get("body")
    if isinstance(body, str):
        raw = body.encode()
    else:
        encoded = [(k.encode(errors="replace"), v.encode(errors="replace"))
                   for k, v in headers.items()]  # fmt: skip
        raw = b"" if body is None else written(body, encoded)
    method = _text(content, "method", "GET").upper()
    sample = SampleRequest(method, _url(content), tuple(headers.items()), raw)
    actions = _sample_actions(sample, policy, "request")
    if "effect" not in content and "reversible" not in content:
        return actions
    return _with_effect(actions.request, content)


def _url(content: Mapping[str, Any]) -> str:
    if "url" in content:
        if others := [key for key in _URL_KEYS[1:] if key in content]:
            raise InvalidInput(f"url has the {others[0]} in it; give one of both")
        return _text(content, "url")
    scheme, host = _text(content, "scheme", "https"), _text(content, "host")
    port = f":{_port(content)}" if "port" in content else ""
    query = f"?{_text(content, 'query')}" if content.get("query") else ""
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}{port}{_text(content, 'path', '/')}{query}"


def _exec(content: Mapping[str, Any]) -> Action:
    argv = content.get("argv", [content.get("program")])
    if not isinstance(argv, list) or not argv or not all(isinstance(word, str) for word in argv):
        raise InvalidInput("argv is a list of texts, the first of which names the program")
    if not argv[0]:
        raise InvalidInput("it names no program")
    more = {key: content[key] for key in ("program", "cwd", "real_path") if key in content}
    if "path" in content:
        more.setdefault("program", content["path"])
    action = exec_action(argv)
    return replace(action, arguments={**action.arguments, **more})


def exec_action(argv: list[str]) -> Action:
    """Return the action of one program with its words."""
    arguments = {"program": argv[0], "argv": argv, "cwd": HOME_DIRECTORY}
    name = argv[0].rpartition("/")[2] or argv[0]
    return Action(Kind.EXEC, name, arguments, Effect.WRITE, is_contained=True)


def _file(content: Mapping[str, Any]) -> Action:
    from paddock.policy.fields import OPERATIONS

    operation, path = _text(content, "operation", "read"), content.get("path")
    if operation not in OPERATIONS:
        raise InvalidInput(f"operation is one of {', '.join(OPERATIONS)}, not {operation[:40]!r}")
    if not isinstance(path, str):
        raise InvalidInput("path is missing: the absolute path of a file of the sandbox")
    to = {"to": content["to"]} if "to" in content else {}
    arguments = {"operation": operation, "path": path, **to}
    effect = _usual_effect(Kind.FILE, arguments)
    return Action(Kind.FILE, operation, arguments, effect, is_contained=True)


def _code(content: Mapping[str, Any]) -> Action:
    language, code = _text(content, "language", "python"), content.get("code", "")
    arguments = {"language": language, "code": code, "context": "default"}
    return Action(Kind.CODE, language, arguments, Effect.WRITE, is_contained=True)


def _connect(content: Mapping[str, Any]) -> Action:
    from paddock.doors.network.origin import Origin
    from paddock.doors.network.passthrough import connect_action
    from paddock.model.hosts import canonical_host

    origin = Origin("https", canonical_host(_text(content, "host")), _port(content))
    return connect_action(origin, "tcp")


def _dns(content: Mapping[str, Any]) -> Action:
    from paddock.doors.network.passthrough import dns_action
    from paddock.model.hosts import canonical_host

    return dns_action(canonical_host(_text(content, "name")), "A")


def _model_action(content: Mapping[str, Any]) -> Action:
    provider, model = _text(content, "provider"), _text(content, "model")
    where = {"host": f"api.{provider}.com", "port": 443}
    arguments = {**where, **_mapping(content, "args"), "provider": provider, "model": model}
    return Action(Kind.MODEL, model, arguments)


def _tool(content: Mapping[str, Any]) -> Action:
    arguments = _mapping(content, "args")
    return Action(Kind.TOOL, _text(content, "name"), arguments)


def _mapping(content: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = content.get(key, {})
    if not isinstance(value, dict):
        raise InvalidInput(f"{key} is an object")
    return value


def _check_keys(kind: Kind, content: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    from paddock.policy.problems import suggest

    for key in content:
        if key not in keys:
            raise InvalidInput(f"{kind} has no {key[:40]}; {suggest(key, keys)}")


def _text(content: Mapping[str, Any], key: str, usual: str = "") -> str:
    value = content.get(key, usual)
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"{key} is missing, or not a text")
    return value


def _port(content: Mapping[str, Any]) -> int:
    port = content.get("port")
    if type(port) is not int or not 0 < port < 65536:
        raise InvalidInput("port is a number from 1 to 65535")
    return port


# ---- words and inputs ----------------------------------------------------------------------------


def _words(text: str) -> list[str]:
    """Split the words of one program. What a shell would start besides is refused: each program is
    decided by itself."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars="".join(_SHELL))
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        argv = list(lexer)
    except ValueError as error:
        raise InvalidInput(f"--exec: {text!r} is not words: {error}") from None
    for word in argv:
        if word and set(word) <= _SHELL:
            raise InvalidInput(
                f"--exec: {word!r} is for a shell, and --exec is one program",
                hint="each program that a shell starts is decided by itself: ask for each",
            )
    if not argv or not argv[0]:
        raise InvalidInput("--exec: names no program")
    return argv


def _object(text: str, option: str) -> dict[str, Any]:
    data = _input(text, option)
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        hint = "@FILE reads a file, - the input"
        raise InvalidInput(f"{option}: not JSON: {error}", hint=hint) from None
    if not isinstance(value, dict):
        raise InvalidInput(f"{option}: not a JSON object")
    return value


def _input(text: str, option: str) -> bytes:
    """Return the text itself, what a file holds (`@FILE`), or the input (`-` or `@-`)."""
    if text in ("-", "@-"):
        data = sys.stdin.buffer.read(_MAX_INPUT + 1)
    elif text.startswith("@"):
        try:
            with Path(text[1:]).open("rb") as file:
                data = file.read(_MAX_INPUT + 1)
        except OSError as error:
            raise InvalidInput(f"{option}: {text[1:]}: {error.strerror}") from None
    else:
        data = text.encode(errors="surrogateescape")
    if len(data) > _MAX_INPUT:
        raise InvalidInput(f"{option}: more than {_MAX_INPUT} bytes")
    return data
