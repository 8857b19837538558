"""The shape of the parts of a paddock file about the network and secrets. `schema` publishes it;
what each text means is said in `network_words` and `secret_words`.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, PlainValidator, WithJsonSchema, create_model

from paddock.model.hosts import HostPattern
from paddock.policy.graphql import GraphqlEndpoint
from paddock.policy.network import Destination, IpNetwork, Mode
from paddock.policy.network_words import parse_destination, parse_hosts, parse_mode, parse_range
from paddock.policy.secret_words import parse_name, parse_patterns, parse_placed, parse_source
from paddock.policy.shape import Shape
from paddock.policy.words import MAX_ENTRIES, text_of


def _path(value: Any) -> str:
    return text_of(value, "write the path of a file")


_HOST = {"type": "string", "minLength": 1, "examples": ["api.example.com", "*.example.com"]}
_ALLOWED = {
    "type": "string",
    "pattern": ":[0-9]+(-[0-9]+)?(/tcp)?$",
    "examples": ["api.example.com:443", "*.example.com:443", "db.example.com:5432/tcp"],
}
_GRAPHQL = {
    "type": "string",
    "pattern": "^[^/]+/.*$",
    "examples": ["api.example.com/graphql"],
}
_FROM = {
    "anyOf": [
        {"type": "string", "pattern": "^(env|file|command|keyring):."},
        {
            "type": "object",
            "additionalProperties": False,
            "required": ["command"],
            "properties": {"command": {"type": "array", "items": {"type": "string"}}},
        },
    ]
}
_PLACED = {"type": "string", "pattern": "^(header:.+|basic:.+|query:.+|body)$"}
_HOSTS = {"type": "object", "additionalProperties": {"type": "string"}}
_TO = {"type": "array", "items": _HOST, "minItems": 1}

Allowed = Annotated[Destination, PlainValidator(parse_destination), WithJsonSchema(_ALLOWED)]
Pattern = Annotated[HostPattern, PlainValidator(HostPattern.parse), WithJsonSchema(_HOST)]
Graphql = Annotated[
    GraphqlEndpoint, PlainValidator(GraphqlEndpoint.parse), WithJsonSchema(_GRAPHQL)
]
Range = Annotated[IpNetwork, PlainValidator(parse_range), WithJsonSchema({"type": "string"})]
ModeWord = Annotated[Mode, PlainValidator(parse_mode), WithJsonSchema({"enum": [*Mode]})]
PathWord = Annotated[str, PlainValidator(_path), WithJsonSchema({"type": "string"})]
Staged = Annotated[dict[str, str], PlainValidator(parse_hosts), WithJsonSchema(_HOSTS)]
From = Annotated[str, PlainValidator(parse_source), WithJsonSchema(_FROM)]
To = Annotated[tuple[HostPattern, ...], PlainValidator(parse_patterns), WithJsonSchema(_TO)]
Placed = Annotated[str, PlainValidator(parse_placed), WithJsonSchema(_PLACED)]
SecretName = Annotated[str, PlainValidator(parse_name), WithJsonSchema({"type": "string"})]


class TlsShape(Shape):
    """Where TLS is not ended, and whom to trust besides the usual authorities."""

    passthrough: list[Pattern] = Field(default=[], max_length=MAX_ENTRIES)
    ca: PathWord = Field(default=None)  # type: ignore[assignment]


class NetworkShape(Shape):
    """What the agent may reach. What is not named does not exist for it."""

    mode: ModeWord = Mode.FILTERED
    allow: list[Allowed] = Field(default=[], max_length=MAX_ENTRIES)
    tls: TlsShape = TlsShape()
    hosts: Staged = Field(default={}, description="addresses that are dialled for names")
    private: list[Range] = Field(default=[], max_length=MAX_ENTRIES)
    graphql: list[Graphql] = Field(
        default=[], max_length=MAX_ENTRIES, description="where a POST may be a query that reads"
    )


_SECRET: dict[str, Any] = {
    "from": (From, Field(description="env:, file:, command: or keyring:; never the value")),
    "to": (To, Field(description="the hosts that get the real value")),
    "as": (Placed, Field(default=None, description="where it stands in a request")),
}
# Two of its keys are words of Python, so it cannot be written as a class.
SecretShape: type[Shape] = create_model("SecretShape", __base__=Shape, **_SECRET)
SecretShape.__doc__ = "A secret that the sandbox knows by a placeholder, and the hosts that get it."
