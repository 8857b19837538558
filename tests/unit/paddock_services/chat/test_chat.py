"""What the chat stand-in answers, remembers and refuses, in process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cases import for_each
from paddock.model.errors import InvalidInput
from paddock.world.seeds import load_seed
from paddock_services.chat import Chat
from paddock_services.chat.service import MAX_CALL, METHODS
from unit.paddock_services.chat.rig import FORM, JSON, Answer, as_form, as_json, ask, made

BEARER = {"authorization": "Bearer xoxb-a"}


class Talk:
    """A workspace and somebody who calls it."""

    def __init__(self, directory: Path, seed: Any = None, **options: Any) -> None:
        self.service = made(Chat, directory, host="slack.com", **options)
        self.service.seed(seed or {})
        self.store = self.service.context.store
        self._app = self.service.app()

    def raw(self, method: str, body: bytes, kind: str = JSON) -> Answer:
        return ask(self._app, "POST", f"/api/{method}", body, {**BEARER, "content-type": kind})

    def call(self, method: str, **arguments: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self.raw(method, as_json(arguments)).json
        return answer

    def channel(self, name: str) -> str:
        return str(self.store.find("channels", {"name": name})[0]["id"])

    def user(self, name: str) -> str:
        return str(self.store.find("users", {"name": name})[0]["id"])

    def say(self, text: str, channel: str = "general", **more: Any) -> str:
        return str(self.call("chat.postMessage", channel=channel, text=text, **more)["ts"])


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    return Talk(tmp_path)


def test_form_and_json_mean_the_same(talk: Talk) -> None:
    arguments = {"channel": "general", "text": "hi", "blocks": '[{"type":"divider"}]'}
    as_a_form = talk.raw("chat.postMessage", as_form(arguments), FORM).json
    as_an_object = talk.call("chat.postMessage", **arguments)
    for one in (as_a_form, as_an_object):
        assert one["message"]["blocks"] == [{"type": "divider"}]
    query = ask(
        talk.service.app(), "GET", "/api/users.lookupByEmail?email=ben@example.com", headers=BEARER
    )
    assert query.json["user"]["name"] == "ben"


def test_same_calls_give_the_same_bytes(tmp_path: Path) -> None:
    digests = set()
    for number in range(3):
        talk = Talk(tmp_path / str(number))
        first = talk.say("a")
        talk.say("b", thread_ts=first)
        talk.call("conversations.create", name="new")
        talk.call("reactions.add", channel=talk.channel("general"), timestamp=first, name="eyes")
        digests.add(talk.store.digest())
    assert len(digests) == 1


def test_time_stamps_grow_and_are_never_used_twice(talk: Talk) -> None:
    stamps = [float(talk.say(str(number))) for number in range(20)]
    assert stamps == sorted(set(stamps))


def test_token_is_kept_nowhere(talk: Talk) -> None:
    body = as_form({"token": "xoxb-secret", "channel": "general", "text": "hi"})
    headers = {"content-type": FORM}
    assert ask(talk.service.app(), "POST", "/api/chat.postMessage", body, headers).json["ok"]
    assert b"xoxb-secret" not in (talk.store.path.read_bytes())
    assert not any(
        "xoxb" in str(one) for kind in talk.store.kinds() for one in talk.store.find(kind)
    )


def test_call_without_token_changes_nothing(talk: Talk) -> None:
    before = talk.store.digest()
    for method in METHODS:
        answer = ask(talk.service.app(), "POST", f"/api/{method}")
        assert answer.json["ok"] is (method == "api.test")
    assert talk.store.digest() == before


@for_each(
    ("method", "arguments", "error"),
    [
        ("chat.postMessage", {"text": "x"}, "invalid_arguments"),
        ("chat.postMessage", {"channel": "general", "text": ["x"]}, "invalid_arguments"),
        ("chat.postMessage", {"channel": "general", "text": "  "}, "no_text"),
        ("chat.postMessage", {"channel": "general", "blocks": "{"}, "invalid_blocks_format"),
        ("chat.postMessage", {"channel": "general", "blocks": [1]}, "invalid_blocks"),
        ("chat.postMessage", {"channel": "general", "blocks": [{}]}, "invalid_blocks"),
        ("chat.postMessage", {"channel": "general", "text": "x", "thread_ts": "1.2"},
         "thread_not_found"),
        ("chat.postMessage", {"channel": "nowhere", "text": "x"}, "channel_not_found"),
        ("conversations.history", {"channel": "C1"}, "channel_not_found"),
        ("conversations.list", {"cursor": "!"}, "invalid_cursor"),
        ("conversations.list", {"cursor": "Y2hhbm5lbDpYWA=="}, "invalid_cursor"),
        ("conversations.list", {"limit": "-3"}, "invalid_limit"),
        ("conversations.list", {"limit": "9" * 5000}, "invalid_limit"),
        ("conversations.list", {"types": "secret"}, "invalid_types"),
        ("conversations.create", {"name": "Has Space"}, "invalid_name_specials"),
        ("conversations.create", {}, "invalid_name_required"),
        ("conversations.open", {}, "users_list_not_supplied"),
        ("users.info", {"user": "U1"}, "user_not_found"),
        ("users.lookupByEmail", {"email": "no@example.com"}, "users_not_found"),
        ("reactions.add", {"name": "tada"}, "no_item_specified"),
        ("files.completeUploadExternal", {"files": [{"id": "F1"}]}, "file_not_found"),
        ("files.getUploadURLExternal", {"filename": "a", "length": 1 << 40},
         "file_upload_size_restricted"),
    ],
)  # fmt: skip
def test_mistake_has_slacks_code_and_changes_nothing(
    talk: Talk, method: str, arguments: dict[str, Any], error: str
) -> None:
    before = talk.store.digest()
    assert talk.call(method, **arguments)["error"] == error
    assert talk.store.digest() == before


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"{", "invalid_json"),
        (b"[1]", "json_not_object"),
        (b'{"text": NaN}', "invalid_json"),
        (b'{"text": 1e999}', "invalid_json"),
        (b'{"channel":"general","text":"\\ud800"}', "invalid_json"),
        (b'{"blocks":' + b"[" * 500 + b"]" * 500 + b"}", "invalid_json"),
        (b'{"blocks":' + b"[" * 90_000 + b"]" * 90_000 + b"}", "invalid_json"),
    ],
)
def test_json_that_the_store_could_not_keep_is_refused(talk: Talk, body: bytes, error: str) -> None:
    assert talk.raw("chat.postMessage", body).json["error"] == error
    assert talk.call("auth.test")["ok"]


def test_nested_text_of_a_form_is_bounded_too(talk: Talk) -> None:
    deep = '[{"type":"a","x":' + "[" * 500 + "]" * 500 + "}]"
    body = as_form({"channel": "general", "blocks": deep})
    assert talk.raw("chat.postMessage", body, FORM).json["error"] == "invalid_blocks_format"


def test_body_that_is_too_long_is_cut_off(talk: Talk) -> None:
    assert talk.raw("chat.postMessage", b"x" * (MAX_CALL + 1)).status == 413


SECTION = {"type": "section", "text": {"type": "mrkdwn", "text": "*bold*"}}


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ({"type": "paragraph"}, "unsupported type: paragraph [json-pointer:/blocks/1/type]"),
        ({"text": {}}, "missing required field: type [json-pointer:/blocks/1]"),
        ({"type": "section"}, "must define either `fields` or `text` [json-pointer:/blocks/1]"),
        ({"type": "section", "text": "plain"},
         "missing required field: type [json-pointer:/blocks/1/text]"),
        ({"type": "section", "text": {"type": "mrkdwn", "text": ""}},
         "must be more than 0 characters [json-pointer:/blocks/1/text/text]"),
        ({"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3001}},
         "must be less than 3001 characters [json-pointer:/blocks/1/text/text]"),
        ({"type": "section", "fields": [{"type": "mrkdwn", "text": "x"}] * 11},
         "must be an array of no more than 10 items [json-pointer:/blocks/1/fields]"),
        ({"type": "header", "text": {"type": "mrkdwn", "text": "x"}},
         "unsupported type: mrkdwn [json-pointer:/blocks/1/text/type]"),
        ({"type": "image", "image_url": "https://a.example/b.png"},
         "missing required field: alt_text [json-pointer:/blocks/1]"),
        ({"type": "context", "elements": [{"type": "button"}]},
         "unsupported type: button [json-pointer:/blocks/1/elements/0/type]"),
        ({"type": "actions", "elements": []},
         "missing required field: elements [json-pointer:/blocks/1]"),
        ({"type": "actions", "elements": [{"type": "link"}]},
         "unsupported type: link [json-pointer:/blocks/1/elements/0/type]"),
        ({**SECTION, "accessory": {"type": "button", "text": {"type": "plain_text", "text": ""}}},
         "must be more than 0 characters [json-pointer:/blocks/1/accessory/text/text]"),
    ],
)  # fmt: skip
def test_blocks_that_break_a_rule_are_refused_with_the_place(
    talk: Talk, block: dict[str, Any], problem: str
) -> None:
    answer = talk.call("chat.postMessage", channel="general", blocks=[SECTION, block])
    assert (answer["ok"], answer["error"]) == (False, "invalid_blocks")
    assert answer["errors"] == [problem]
    assert answer["response_metadata"]["messages"] == [f"[ERROR] {problem}"]


def test_more_blocks_than_a_message_has_are_refused(talk: Talk) -> None:
    many = talk.call("chat.postMessage", channel="general", blocks=[SECTION] * 51)
    assert many["error"] == "invalid_blocks"
    sent = talk.say("old")
    change = {"channel": talk.channel("general"), "ts": sent, "blocks": [{"type": "paragraph"}]}
    assert talk.call("chat.update", **change)["error"] == "invalid_blocks"


def test_blocks_of_many_kinds_are_taken(talk: Talk) -> None:
    text = {"type": "plain_text", "text": "x"}
    button = {"type": "button", "text": text, "action_id": "a"}
    blocks = [
        SECTION,
        {"type": "divider"},
        {"type": "header", "text": text},
        {"type": "section", "fields": [text, text], "accessory": button},
        {"type": "context", "elements": [text, {"type": "image", "alt_text": "a"}]},
        {"type": "actions", "elements": [button, {"type": "static_select"}]},
        {"type": "image", "image_url": "https://a.example/b.png", "alt_text": "a"},
        {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": []}]},
        {"type": "markdown", "text": "# x"},
    ]  # fmt: skip
    answer = talk.call("chat.postMessage", channel="general", blocks=blocks)
    assert answer["ok"] and answer["message"]["blocks"] == blocks


def test_bot_cannot_see_a_private_channel_of_others(tmp_path: Path) -> None:
    seed = {
        "users": [{"name": "ada"}],
        "channels": [
            {"name": "board", "is_private": True, "members": ["ada"]},
            {"name": "open", "members": ["ada"]},
        ],
        "messages": [{"channel": "board", "user": "ada", "text": "the merger"}],
    }
    talk = Talk(tmp_path, seed)
    board, public = talk.channel("board"), talk.channel("open")
    assert talk.call("conversations.info", channel=board)["error"] == "channel_not_found"
    assert talk.call("conversations.history", channel=board)["error"] == "channel_not_found"
    assert talk.call("chat.postMessage", channel="board", text="x")["error"] == "channel_not_found"
    assert talk.call("search.messages", query="merger")["messages"]["total"] == 0
    every = "public_channel,private_channel,im,mpim"
    assert [c["id"] for c in talk.call("conversations.list", types=every)["channels"]] == [public]
    assert talk.call("conversations.history", channel=public)["error"] == "not_in_channel"
    assert talk.call("conversations.join", channel=public)["channel"]["is_member"] is True
    assert talk.say("now", "open")


def test_others_messages_cannot_be_changed_or_deleted(talk: Talk) -> None:
    channel = talk.channel("general")
    ts = talk.call("conversations.history", channel=channel)["messages"][0]["ts"]
    for method, error in (("update", "cant_update_message"), ("delete", "cant_delete_message")):
        assert talk.call(f"chat.{method}", channel=channel, ts=ts, text="x")["error"] == error


def test_deleted_message_with_replies_keeps_its_thread(talk: Talk) -> None:
    channel, first = talk.channel("general"), talk.say("first")
    reply = talk.say("reply", thread_ts=first)
    talk.call("chat.delete", channel=channel, ts=first)
    thread = talk.call("conversations.replies", channel=channel, ts=first)["messages"]
    assert [one["text"] for one in thread] == ["This message was deleted.", "reply"]
    talk.call("chat.delete", channel=channel, ts=reply)
    assert "reply_count" not in talk.call("conversations.history", channel=channel)["messages"][0]
    assert talk.service.invariants() == []


def test_ephemeral_message_is_not_in_the_history(talk: Talk) -> None:
    channel = talk.channel("general")
    told = talk.call("chat.postEphemeral", channel=channel, user=talk.user("ada"), text="psst")
    assert told["message_ts"]
    texts = [m["text"] for m in talk.call("conversations.history", channel=channel)["messages"]]
    assert texts == ["Welcome, all."]


def test_history_between_two_times(talk: Talk) -> None:
    channel, stamps = talk.channel("general"), [talk.say(str(n)) for n in range(4)]
    span = {"channel": channel, "oldest": stamps[0], "latest": stamps[3]}
    inside = talk.call("conversations.history", **span)["messages"]
    assert [one["text"] for one in inside] == ["2", "1"]
    around = talk.call("conversations.history", **span, inclusive=True)["messages"]
    assert [one["text"] for one in around] == ["3", "2", "1", "0"]


def test_upload_takes_only_the_bytes_that_were_announced(talk: Talk) -> None:
    asked = talk.call("files.getUploadURLExternal", filename="a.txt", length=3)
    path = "/" + asked["upload_url"].split("/", 3)[3]
    app = talk.service.app()
    assert ask(app, "POST", path, b"four").status == 400
    assert ask(app, "POST", "/upload/v1/nobody", b"abc").status == 400
    unfinished = talk.call("files.completeUploadExternal", files=[{"id": asked["file_id"]}])
    assert unfinished["error"] == "file_not_found"
    assert ask(app, "POST", path, b"abc").body == b"OK - 3"
    done = talk.call("files.completeUploadExternal", files=[{"id": asked["file_id"]}])
    assert done["files"][0]["name"] == "a.txt"
    assert ask(app, "POST", path, b"abc").status == 400


def test_broken_state_is_found(talk: Talk) -> None:
    assert talk.service.invariants() == []
    talk.say("x")
    message = talk.store.find("messages", newest_first=True)[0]
    talk.store.put("messages", "C0:1.0", {**message, "channel": "C0", "thread_ts": "9.9"})
    assert len(talk.service.invariants()) == 2


@pytest.mark.parametrize(
    "seed",
    [
        {"invoices": [{}]},
        {"channels": [{"name": "a", "members": ["nobody"]}]},
        {"messages": [{"channel": "a", "user": "b", "text": "x"}]},
        {"messages": [{"ts": "yesterday"}]},
    ],
)
def test_seed_that_makes_no_sense_is_refused_whole(tmp_path: Path, seed: Any) -> None:
    service = made(Chat, tmp_path)
    with pytest.raises(InvalidInput):
        service.seed(seed)
    assert service.context.store.kinds() == []


def test_seed_with_replies_and_times_reads_back_in_order(tmp_path: Path) -> None:
    talk = Talk(tmp_path, {
        "users": [{"id": "U1", "name": "ada"}],
        "channels": [{"id": "C1", "name": "a"}],
        "messages": [
            {"channel": "a", "user": "ada", "text": "late", "ts": "1700000002.000000"},
            {"channel": "C1", "user": "U1", "text": "early", "ts": "1700000001.000000",
             "replies": [{"user": "ada", "text": "yes", "ts": "1700000003.000000"}]},
        ],
    })  # fmt: skip
    told = talk.call("conversations.history", channel="C1")["messages"]
    assert [(one["text"], one.get("reply_count")) for one in told] == [("late", None), ("early", 1)]
    assert talk.service.invariants() == []


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_generated_messages_fill_a_workspace_however_messy(tmp_path: Path, seed: int) -> None:
    service = made(Chat, tmp_path)
    words = {"generate": "messages", "count": 200, "seed": seed, "mess": 0.5}
    service.seed(load_seed(words, service.context, tmp_path))
    assert service.context.store.count("messages") >= 200
    assert service.invariants() == []


def test_option_that_is_no_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="bot"):
        made(Chat, tmp_path, bot=7)
