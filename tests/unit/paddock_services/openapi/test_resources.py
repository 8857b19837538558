"""Which paths a document is taken to mean what by."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paddock_services.openapi.api import OpenApiDescription
from paddock_services.openapi.resources import Role
from unit.paddock_services.openapi.serving import Served


def answer(schema: Any, status: str = "200") -> dict[str, Any]:
    content = {"application/json": {"schema": schema}}
    return {"responses": {status: {"description": "", "content": content}}}


def taking(schema: Any, **operation: Any) -> dict[str, Any]:
    return {**operation, "requestBody": {"content": {"application/json": {"schema": schema}}}}


def reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def many(name: str) -> dict[str, Any]:
    return {"type": "object", "properties": {"data": {"type": "array", "items": reference(name)}}}


def one(name: str) -> dict[str, Any]:
    return {"type": "object", "properties": {"data": reference(name)}}


TEXT = {"type": "string"}
TASK = {"gid": {"type": "string", "readOnly": True, "example": "12345"}, "name": TEXT}
BOARD = {
    "openapi": "3.0.0",
    "info": {"title": "Board", "version": "1"},
    "paths": {
        "/tasks": {"post": taking(one("Task"), **answer(one("Task"), "201"))},
        "/tasks/{task_gid}": {"get": answer(one("Task"))},
        "/projects/{project_gid}": {"get": answer(one("Project")),
                                    "put": taking(one("Project"), **answer(one("Project")))},
        "/projects/{project_gid}/tasks": {"get": answer(many("TaskCompact"))},
        "/files/{name}.{ext}": {"get": answer(TEXT)},
        "/flags/{key}": {"get": answer(reference("Flag")), "delete": answer({"type": "object"}),
                         "put": taking(reference("Flag"), **answer(reference("Flag")))},
    },
    "components": {
        "schemas": {
            "TaskCompact": {"type": "object", "properties": TASK},
            "Task": {"type": "object", "properties": {**TASK, "project": TEXT, "notes": TEXT}},
            "Project": {"type": "object", "properties": {"gid": TEXT, "title": TEXT}},
            "Flag": {"type": "object", "required": ["on"],
                     "properties": {"key": TEXT, "on": {"type": "boolean"}}},
        }
    },
}  # fmt: skip


@pytest.fixture
def board(tmp_path: Path) -> Served:
    path = tmp_path / "board.json"
    path.write_text(json.dumps(BOARD))
    return Served(path, tmp_path)


def test_list_of_a_shorter_schema_is_of_the_same_records(board: Served) -> None:
    body = {"data": {"name": "Paint", "project": "p1", "notes": "blue"}}
    made = board.ask("POST", "/tasks", body).json["data"]
    assert made["gid"].isdecimal() and len(made["gid"]) == 5
    assert board.ask("GET", f"/tasks/{made['gid']}").json["data"] == made
    listed = board.ask("GET", "/projects/p1/tasks").json["data"]
    assert [one["gid"] for one in listed] == [made["gid"]]
    assert board.ask("GET", "/projects/p2/tasks").json["data"] == []


def test_parent_that_nobody_can_make_is_taken_to_be_there(board: Served) -> None:
    assert board.ask("GET", "/projects/any/tasks").status == 200
    board.service.seed({"projects": [{"gid": "p1", "title": "One"}]})
    assert board.ask("GET", "/projects/p1/tasks").status == 200
    assert board.ask("GET", "/projects/any/tasks").status == 404


def test_put_makes_what_nothing_else_can_make(board: Served) -> None:
    assert board.ask("GET", "/flags/dark").status == 404
    assert board.ask("PUT", "/flags/dark", {"on": True}).json == {"key": "dark", "on": True}
    assert board.ask("GET", "/flags/dark").json["on"] is True
    assert board.ask("DELETE", "/flags/dark").status == 200
    assert board.ask("GET", "/flags/dark").status == 404


def test_parts_of_one_segment_are_told_apart() -> None:
    api = OpenApiDescription(BOARD)
    found = api.routes.find("/files/a.b.txt")
    assert found is not None and found[1] == {"name": "a", "ext": "b.txt"}
    assert api.routes.find("/files/plain") is None
    assert api.routes.find("/files/.txt") is None


def test_roles_are_seen() -> None:
    api = OpenApiDescription(BOARD)
    roles = {route.template: api.resources.info(route).role for route in api.routes.all}
    assert roles["/tasks"] is Role.COLLECTION and roles["/tasks/{task_gid}"] is Role.ITEM
    assert roles["/projects/{project_gid}/tasks"] is Role.COLLECTION
    assert sorted(api.resources.by_kind) == ["flags", "projects", "tasks"]
