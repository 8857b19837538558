"""Every operation of three documents, answered, and the answer checked by another validator."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from paddock_services.openapi.document import load
from paddock_services.openapi.generation import Source, ValueFitter
from paddock_services.openapi.resources import Role
from paddock_services.openapi.routes import Operation
from paddock_services.openapi.schemas import Schemas
from unit.paddock_services.openapi.serving import DOCUMENTS, Reply, Served

NAMES = ("shop.yaml", "pets.json", "desk.yaml")
BASES = {"shop.yaml": "/v1", "pets.json": "/api/v3", "desk.yaml": "/api"}


def modern(node: Any) -> Any:
    """3.0 as JSON Schema: nullable and exclusive bounds are said otherwise there."""
    if isinstance(node, list):
        return [modern(one) for one in node]
    if not isinstance(node, dict):
        return node
    made = {key: modern(value) for key, value in node.items()}
    if made.pop("nullable", None) is True and isinstance(made.get("type"), str):
        made["type"] = [made["type"], "null"]
    if made.get("exclusiveMinimum") is True:
        made["exclusiveMinimum"] = made.pop("minimum")
    return made


class Judge:
    """Says what is wrong with an answer, by the words of JSON Schema."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        contents = modern(root)
        resource = Resource.from_contents(contents, default_specification=DRAFT202012)
        self._registry = Registry().with_resource("urn:api", resource)
        self.root = contents

    def faults(self, schema: Any, value: Any) -> list[str]:
        rooted = _rooted(modern(schema))
        validator = jsonschema.Draft202012Validator(
            rooted,
            registry=self._registry,
            format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER,
        )
        return [f"{one.json_path}: {one.message}" for one in validator.iter_errors(value)]


def _rooted(node: Any) -> Any:
    if isinstance(node, list):
        return [_rooted(one) for one in node]
    if not isinstance(node, dict):
        return node
    return {
        key: f"urn:api{value}" if key == "$ref" and str(value).startswith("#") else _rooted(value)
        for key, value in node.items()
    }


class Walk:
    """Makes one record of each collection, then calls all operations, deletions last."""

    def __init__(self, served: Served, name: str) -> None:
        self.served = served
        self.api = served.service.api
        self.judge = Judge(load(DOCUMENTS / name).root)
        self.ids: dict[str, str] = {"year": "2025", "slug": "acme", "username": "ada"}

    def operations(self) -> Iterator[Operation]:
        order = ("POST", "PUT", "GET", "PATCH", "DELETE")
        found = [one for route in self.api.routes.all for one in route.operations.values()]
        creating = [one for one in found if self._creates(one)]
        yield from sorted(creating, key=lambda one: len(one.route.segments))
        rest = sorted(found, key=lambda one: order.index(one.method))
        deleting = [one for one in rest if one.method == "DELETE"]
        yield from (one for one in rest if one not in creating and one not in deleting)
        yield from sorted(deleting, key=lambda one: -len(one.route.segments))

    def _creates(self, operation: Operation) -> bool:
        place = self.api.resources.info(operation.route)
        is_put = operation.method == "PUT" and place.role is Role.ITEM
        return (operation.method == "POST" and place.role is Role.COLLECTION) or is_put

    def call(self, operation: Operation) -> Reply:
        path = operation.route.template
        for name in operation.route.names:
            key = "orderId" if "store" in path else name
            path = path.replace("{" + name + "}", self.ids.get(key, "1"))
        query = "&".join(
            f"{one.name}=x"
            for one in operation.parameters
            if one.location == "query" and one.is_required
        )
        body, headers = self.body(operation)
        reply = self.served.ask(operation.method, f"{path}?{query}", body, headers)
        self._remember(operation, reply)
        return reply

    def body(self, operation: Operation) -> tuple[Any, dict[str, str]]:
        node = operation.body_node()
        if node is None:
            return None, {}
        media = next(iter(operation.body))
        if "json" not in media:
            return b"name=Rex", {"content-type": media}
        made = ValueFitter(Schemas(self.api.document)).fit(node, source=Source("body"))
        made = {"ticket": made["ticket"]} if "ticket" in made else made
        if "username" in self.api.schemas.of(node).properties:
            made["username"] = "ada"
        if "customer_id" in made:
            made["customer_id"] = self.ids["customer_id"]
        return made, {"content-type": media}

    def _remember(self, operation: Operation, reply: Reply) -> None:
        if not self._creates(operation) or operation.method != "POST":
            return
        made = reply.json.get("ticket", reply.json)
        resource = self.api.resources.info(operation.route).resource
        assert resource is not None
        if resource.id_name in made:
            self.ids[resource.id_parameter] = str(made[resource.id_name])


@pytest.mark.parametrize("name", NAMES)
def test_each_operation_answers_what_its_document_promises(name: str, tmp_path: Path) -> None:
    walk = Walk(Served(DOCUMENTS / name, tmp_path, BASES[name]), name)
    seen = 0
    for operation in walk.operations():
        reply = walk.call(operation)
        what = f"{operation.method} {operation.route.template}"
        assert reply.status < 300, f"{what}: {reply.status} {reply.raw!r}"
        declared = operation.response(reply.status)
        statuses = {one.status for one in operation.responses}
        assert declared is not None or not any(one.startswith("2") for one in statuses), what
        if declared is not None and declared.media_type is not None:
            assert reply.headers["content-type"] == declared.media_type, what
            if "json" in declared.media_type:
                faults = walk.judge.faults(declared.node, json.loads(reply.raw))
                assert not faults, f"{what}: {faults} {reply.raw!r}"
        else:
            assert reply.raw == b"", what
        seen += 1
    assert seen == sum(len(route.operations) for route in walk.api.routes.all)
    walk.served.store.close()


@pytest.mark.parametrize("name", NAMES)
def test_the_same_requests_leave_the_same_state(name: str, tmp_path: Path) -> None:
    digests = set()
    for turn in ("one", "two"):
        (tmp_path / turn).mkdir()
        walk = Walk(Served(DOCUMENTS / name, tmp_path / turn, BASES[name]), name)
        answers = [walk.call(operation).raw for operation in walk.operations()]
        digests.add((walk.served.store.digest(), b"\n".join(answers)))
        walk.served.store.close()
    assert len(digests) == 1
