"""The chat as a service: its options, its seed, its invariants and its application."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from paddock.model.errors import InvalidInput
from paddock.world.kit import (
    Api,
    Call,
    MalformedRequest,
    Reply,
    RequestError,
    Route,
    TooLarge,
    UnknownPath,
)
from paddock.world.service import ASGIApp, Seed, Service
from paddock_services.chat import conversations, files, messages, users
from paddock_services.chat.arguments import Arguments, Document, SlackError
from paddock_services.chat.seed import DEFAULT_SEED, KINDS, Seeder
from paddock_services.chat.workspace import CHANNELS, MESSAGES, USERS, Workspace

MAX_CALL = 1 << 20
METHODS: Mapping[str, Callable[[Workspace, Arguments], Document]] = {
    **users.METHODS,
    **conversations.METHODS,
    **messages.METHODS,
    **files.METHODS,
}
_WITHOUT_TOKEN = ("api.test",)


class Chat(Service):
    """Slack's Web API over a workspace of its own."""

    name = "chat"
    options: ClassVar[Mapping[str, str]] = {
        "team": "the name of the workspace",
        "bot": "the name of the user that calls the API",
    }

    def check(self) -> None:
        for option in self.options:
            value = self.context.options.get(option, "x")
            if not isinstance(value, str) or not value.strip():
                raise InvalidInput(f"chat: {option} is a name, not {value!r}")

    def app(self) -> ASGIApp:
        return SlackApi(Workspace(self.context))

    def seed(self, data: Seed) -> None:
        """Fill the workspace: with the default one when nothing is given."""
        unknown = sorted(set(data) - set(KINDS))
        if unknown:
            raise InvalidInput(f"chat has no {unknown[0]}; it has {', '.join(KINDS)}")
        with self.context.store.transaction():
            Seeder(Workspace(self.context)).fill(data if any(data.values()) else DEFAULT_SEED)

    def invariants(self) -> list[str]:
        store = self.context.store
        user_ids, channels = set(store.ids(USERS)), store.find(CHANNELS)
        broken = [
            f"{user} is a member of {channel['id']} and is nobody"
            for channel in channels
            for user in channel["members"]
            if user not in user_ids
        ]
        channel_ids = {channel["id"] for channel in channels}
        for message in store.find(MESSAGES):
            ts, thread = message["ts"], message.get("thread_ts")
            if message["channel"] not in channel_ids:
                broken.append(f"message {ts} is in no channel")
            if thread and not store.has(MESSAGES, f"{message['channel']}:{thread}"):
                broken.append(f"message {ts} answers one that is not there")
            for reaction in message.get("reactions", []):
                if reaction["count"] != len(set(reaction["users"])):
                    broken.append(f"reaction {reaction['name']} on {ts} is counted wrong")
        return broken


class SlackApi(Api):
    """The methods at `/api/METHOD`, and the addresses of files."""

    max_body = files.MAX_FILE + MAX_CALL

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        routes = [
            Route("GET", "/api/{method}", self._call_method),
            Route("POST", "/api/{method}", self._call_method),
            Route("POST", "/upload/v1/{token}", self._upload),
            Route("PUT", "/upload/v1/{token}", self._upload),
            Route("GET", "/files-pri/{name}", self._download),
            Route("GET", "/files-pri/{name}/download", self._download),
        ]
        super().__init__(workspace.store, routes)

    def refuse(self, call: Call, error: RequestError) -> Reply:
        match error:
            case MalformedRequest():
                return SlackError("invalid_form_data").reply
            case UnknownPath():
                return Reply.text("Not Found", 404)
        return Reply.text("Request Entity Too Large", error.status)

    def _call_method(self, call: Call) -> Reply:
        name = call.params["method"]
        arguments = _read_arguments(call)
        token = call.bearer_token or arguments.get("token")
        arguments.pop("token", None)  # it is kept nowhere
        method = METHODS.get(name)
        if method is None:
            raise SlackError("unknown_method", req_method=name[:100])
        if not token and name not in _WITHOUT_TOKEN:
            raise SlackError("not_authed")
        with self._workspace.store.transaction():  # a GET may write, too
            answer = method(self._workspace, Arguments(arguments, call.origin))
        return Reply({"ok": True, **answer})

    def _upload(self, call: Call) -> Reply:
        data = call.body
        if call.content_type == "multipart/form-data":
            uploads = call.form.files
            data = uploads[0].data if uploads else b""
        if not files.receive_upload(self._workspace, call.params["token"], data):
            return Reply.text("Invalid upload", 400)
        return Reply.text(f"OK - {len(data)}")

    def _download(self, call: Call) -> Reply:
        if not call.bearer_token:
            return Reply.text("not_authed", 403)
        data = files.file_bytes(self._workspace, call.params["name"].rpartition("-")[2])
        if data is None:
            return Reply.text("Not Found", 404)
        return Reply(data, headers={"content-type": "application/octet-stream"})


def _read_arguments(call: Call) -> dict[str, Any]:
    """Return the arguments of the query and of the body, which is JSON or a form."""
    if len(call.body) > MAX_CALL:
        raise TooLarge(f"the body has more than {MAX_CALL} bytes")
    arguments: dict[str, Any] = dict(call.query)
    if not call.body.strip():
        return arguments
    if call.content_type != "application/json":
        return arguments | {name: values[-1] for name, values in call.form.fields.items()}
    try:
        values = call.json()
    except MalformedRequest:
        raise SlackError("invalid_json") from None
    if not isinstance(values, dict):
        raise SlackError("json_not_object")
    return arguments | values
