"""An OpenAPI document as data, read within bounds. All references stay inside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from paddock.model.errors import InvalidInput

MAX_BYTES = 48 << 20  # the largest public documents have about 12 MB
MAX_NODES = 1_500_000  # each YAML alias counts in full: they can multiply
MAX_DEPTH = 200
_MAX_REFERENCES = 32  # in a chain
# Keys whose content is data, in which a "$ref" means nothing.
_DATA = frozenset({"example", "examples", "default", "enum", "const"})


class Document:
    """A checked document: its version is known and each reference leads somewhere."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root
        version = str(root.get("openapi", ""))
        if not version.startswith(("3.0", "3.1", "3.2")):
            version = version or f"swagger {root.get('swagger', 'none')}"
            raise InvalidInput(f"it is no OpenAPI 3 document (openapi: {version})")
        if not isinstance(root.get("paths", {}), Mapping):
            raise InvalidInput("its paths are no mapping")
        for pointer in _references(root):
            self.at(pointer)

    def at(self, pointer: str) -> Any:
        """Return the target of a local reference. Raises InvalidInput."""
        if not pointer.startswith("#"):
            raise InvalidInput(
                f"it refers to {pointer!r}, outside of itself",
                hint="bundle the document into one file; nothing is fetched",
            )
        node: Any = self.root
        for part in pointer[1:].split("/")[1:]:
            node = _child(node, unquote(part).replace("~1", "/").replace("~0", "~"), pointer)
        return node

    def follow(self, node: Any) -> Any:
        """Return the node, or the target of its references; a circle gives an empty mapping."""
        for _ in range(_MAX_REFERENCES):
            if not (isinstance(node, Mapping) and isinstance(node.get("$ref"), str)):
                return node
            node = self.at(node["$ref"])
        return {}

    def mapping(self, node: Any) -> Mapping[str, Any]:
        """Follow references; anything else than a mapping becomes an empty one."""
        target = self.follow(node)
        return target if isinstance(target, Mapping) else {}


def load(path: Path) -> Document:
    """Read a document in JSON or YAML. Raises InvalidInput."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"spec: {path} cannot be read: {error.strerror}") from error
    try:
        return Document(parse(raw))
    except InvalidInput as error:
        raise InvalidInput(f"spec: {path.name}: {error.message}", hint=error.hint) from error


def parse(raw: bytes) -> Mapping[str, Any]:
    """Parse a document; all keys become text. Raises InvalidInput."""
    if len(raw) > MAX_BYTES:
        raise InvalidInput(f"it is larger than {MAX_BYTES >> 20} MiB")
    try:
        text = raw.decode("utf-8-sig")
        data = json.loads(text) if text.lstrip().startswith("{") else _yaml(text)
        document = _plain(data, _Budget(MAX_NODES), 0)
    except (ValueError, RecursionError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"it cannot be read: {str(error) or type(error).__name__}") from error
    if not isinstance(document, dict):
        raise InvalidInput("it is no mapping")
    return document


class _Budget:
    def __init__(self, left: int) -> None:
        self.left = left


def _yaml(text: str) -> Any:
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    # Dates stay text, as in JSON, because the schemas expect strings.
    resolvers = {
        first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:timestamp"]
        for first, pairs in base.yaml_implicit_resolvers.items()
    }
    loader = type("Loader", (base,), {"yaml_implicit_resolvers": resolvers})
    try:
        return yaml.load(text, Loader=loader)  # noqa: S506  it is a safe loader
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _plain(node: Any, budget: _Budget, depth: int) -> Any:
    budget.left -= 1
    if budget.left < 0 or depth > MAX_DEPTH:
        raise InvalidInput("it is too large or too deep")
    if isinstance(node, dict):
        return {_key(key): _plain(value, budget, depth + 1) for key, value in node.items()}
    if isinstance(node, list):
        return [_plain(value, budget, depth + 1) for value in node]
    if node is None or isinstance(node, str | int | float | bool):
        return node
    raise InvalidInput(f"it has a value of type {type(node).__name__}")


def _key(key: object) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)


def _references(root: Any) -> Iterator[str]:
    pending: list[tuple[Any, bool]] = [(root, False)]
    while pending:
        node, has_names_as_keys = pending.pop()
        if isinstance(node, list):
            pending += [(each, False) for each in node]
        elif isinstance(node, Mapping):
            if isinstance(node.get("$ref"), str):
                yield node["$ref"]
            pending += [
                (value, key in ("properties", "schemas", "patternProperties"))
                for key, value in node.items()
                if has_names_as_keys or key not in _DATA
            ]


def _child(node: Any, name: str, pointer: str) -> Any:
    if isinstance(node, Mapping) and name in node:
        return node[name]
    if isinstance(node, list) and name.isdecimal() and int(name) < len(node):
        return node[int(name)]
    raise InvalidInput(f"it refers to {pointer!r}, which is not there")
