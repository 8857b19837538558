"""That no arguments, however odd, make one of the three stand-ins fail or break its state."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from paddock_services.chat import Chat
from paddock_services.chat.service import METHODS
from paddock_services.mail import Mail
from paddock_services.tickets import Tickets
from paddock_services.tickets.service import ROUTES
from unit.paddock_services.chat.rig import FORM, JSON, as_form, as_json, ask, made

NASTY: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1.5,
    10**30,
    "",
    " ",
    "0",
    "1",
    "-1",
    "٣",
    "²",
    "x" * 300,
    "\x00",
    "é",
    "a,b",
    ",,,",
    "[]",
    "{}",
    "[[[",
    "null",
    '"',
    "'; DROP TABLE documents; --",
    "%00",
    "*",
    "#general",
    "general",
    "support",
    "agent",
    "1.0",
    "1767225602.000001",
    "tada",
    [],
    {},
    [None],
    [{}],
    ["a"],
    [[1]],
    {"id": "F1"},
    {"email": "a@b.example", "name": "A"},
    [{"type": "x"}],
    {"body": "x"},
    [1, "a"],
    {"value": {"value": []}},
    "a@b.example",
    "Ada <a@b.example>",
    "a@b.example, c@d.example",
]


@pytest.mark.parametrize("seed", range(3))
def test_chat_answers_anything(tmp_path: Path, seed: int) -> None:
    service, chance = made(Chat, tmp_path), random.Random(seed)
    service.seed({})
    app, store = service.app(), service.context.store
    known = [*store.ids("users"), *store.ids("channels")]
    known += [one["ts"] for one in store.find("messages", {"channel": known[-1]})]
    channel = store.find("channels")[-1]["id"]
    words = [
        "channel",
        "user",
        "users",
        "text",
        "ts",
        "thread_ts",
        "timestamp",
        "name",
        "blocks",
        "attachments",
        "metadata",
        "cursor",
        "limit",
        "oldest",
        "latest",
        "inclusive",
        "types",
        "query",
        "count",
        "page",
        "files",
        "file",
        "filename",
        "length",
        "channel_id",
        "email",
        "channels",
        "topic",
        "error",
        "token",
        "is_private",
        "message_ts",
    ]
    for _ in range(600):
        method = chance.choice(list(METHODS))
        names = chance.sample(words, chance.randint(0, len(words)))
        likely = known if chance.random() < 0.6 else NASTY
        values = {name: chance.choice(likely) for name in names}
        values |= {"text": "x", "channel": channel} if chance.random() < 0.5 else {}
        is_json = chance.random() < 0.5
        headers = {"authorization": "Bearer x", "content-type": JSON if is_json else FORM}
        body = as_json(values) if is_json else as_form(values)
        answer = ask(app, "POST", f"/api/{method}", body, headers)
        assert answer.status == 200
        assert isinstance(answer.json["ok"], bool)
    assert service.invariants() == []


@pytest.mark.parametrize("seed", range(3))
def test_help_desk_answers_anything(tmp_path: Path, seed: int) -> None:
    service, chance = made(Tickets, tmp_path), random.Random(seed)
    service.seed({})
    app, store = service.app(), service.context.store
    ids = [*store.ids("tickets"), *store.ids("users"), "0", "x"]
    words = [
        "status",
        "priority",
        "type",
        "subject",
        "tags",
        "comment",
        "assignee_id",
        "requester",
        "requester_id",
        "assignee_email",
        "custom_fields",
        "additional_tags",
        "remove_tags",
        "name",
        "email",
        "role",
        "notes",
        "external_id",
        "description",
        "safe_update",
        "group_id",
        "due_at",
        "verified",
        "author_id",
    ]
    asked = [
        "page",
        "per_page",
        "page[size]",
        "page[after]",
        "query",
        "sort_by",
        "sort",
        "ids",
        "sort_order",
        "include",
        "role",
        "external_id",
    ]
    for _ in range(600):
        method, path = chance.choice(list(ROUTES)).split(" ")
        values = {
            name: chance.choice([*ids, "open", "closed", "admin", *NASTY])
            for name in chance.sample(words, chance.randint(0, 5))
        }
        query = "&".join(
            f"{name}={quote(str(chance.choice(NASTY)))}"
            for name in chance.sample(asked, chance.randint(0, 3))
        )
        body: Any = {chance.choice(["ticket", "user", "tags"]): values}
        target = f"/api/v2/{path.replace('{id}', chance.choice(ids))}?{query}"
        headers = {"authorization": "Bearer x", "content-type": JSON}
        assert ask(app, method, target, as_json(body), headers).status < 500
    assert service.invariants() == []


@pytest.mark.parametrize("seed", range(3))
def test_mail_providers_answer_anything(tmp_path: Path, seed: int) -> None:
    service, chance = made(Mail, tmp_path, bounce=["c@*"]), random.Random(seed)
    app = service.app()
    people = [[{"to": [{"email": "a@b.example"}]}], [{"to": [{"email": "c@d.example"}] * 2}]]
    words = [
        "personalizations",
        "from",
        "subject",
        "content",
        "attachments",
        "headers",
        "reply_to",
        "mail_settings",
        "template_id",
        "From",
        "To",
        "Cc",
        "Bcc",
        "TextBody",
        "HtmlBody",
        "Attachments",
        "Headers",
        "Tag",
        "Metadata",
        "to",
        "cc",
        "text",
        "h:x",
        "o:tag",
    ]
    headers = {"x-postmark-server-token": "t"}
    valid = {
        "personalizations": people[0], "from": {"email": "a@b.example"}, "subject": "s",
        "content": [{"type": "text/plain", "value": "x"}], "From": "a@b.example",
        "To": "a@b.example", "TextBody": "x", "to": "a@b.example", "text": "x",
    }  # fmt: skip
    for _ in range(600):
        names = chance.sample(words, chance.randint(0, 3))
        values: Any = {**valid, **{name: chance.choice([*people, *NASTY]) for name in names}}
        path = chance.choice(["/v3/mail/send", "/email", "/email/batch", "/v3/d.example/messages"])
        is_form = path.endswith("messages")
        body = as_form(values) if is_form else as_json([values] if "batch" in path else values)
        more = (
            {"authorization": "Basic YXBpOmtleQ==", "content-type": FORM}
            if is_form
            else {"authorization": "Bearer x", "content-type": JSON}
        )
        assert ask(app, "POST", path, body, {**headers, **more}).status < 500
    assert service.invariants() == []
