"""That the official client works unchanged, over a socket."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from paddock_services.chat import Chat
from unit.paddock_services.chat.rig import made, served


@pytest.fixture
def base(tmp_path: Path) -> Iterator[str]:
    service = made(Chat, tmp_path, host="slack.com")
    service.seed({})
    with served(service.app()) as address:
        yield address


@pytest.fixture
def client(base: str) -> WebClient:
    return WebClient(token="xoxb-test", base_url=f"{base}/api/")


def _ids(client: WebClient) -> dict[str, str]:
    return {one["name"]: one["id"] for one in client.conversations_list()["channels"]}


def test_sdk_says_who_it_is(client: WebClient) -> None:
    assert client.api_test(foo="bar")["args"] == {"foo": "bar"}
    assert client.auth_test()["user"] == "agent"


def test_sdk_posts_in_a_thread_and_reads_it_back(client: WebClient) -> None:
    channel = _ids(client)["support"]
    first = client.chat_postMessage(channel="#support", text="Hello")
    client.chat_postMessage(channel=channel, thread_ts=first["ts"], text="Again")
    told = client.conversations_history(channel=channel)["messages"]
    assert [one["text"] for one in told][:2] == ["Hello", "Order 1042 has not arrived. Who looks?"]
    assert told[0]["reply_count"] == 1
    thread = client.conversations_replies(channel=channel, ts=first["ts"])["messages"]
    assert [one["text"] for one in thread] == ["Hello", "Again"]


def test_sdk_sends_blocks_and_changes_and_deletes_a_message(client: WebClient) -> None:
    blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": "*bold*"}}]
    sent = client.chat_postMessage(channel="general", text="see", blocks=blocks)
    assert sent["message"]["blocks"] == blocks
    changed = client.chat_update(channel=sent["channel"], ts=sent["ts"], text="seen")
    assert changed["message"]["text"] == "seen"
    client.chat_delete(channel=sent["channel"], ts=sent["ts"])
    with pytest.raises(SlackApiError, match="message_not_found"):
        client.chat_getPermalink(channel=sent["channel"], message_ts=sent["ts"])


def test_sdk_walks_all_pages_by_cursor(client: WebClient) -> None:
    channel = _ids(client)["general"]
    for number in range(7):
        client.chat_postMessage(channel=channel, text=str(number))
    pages = [
        [one["text"] for one in answer["messages"]]
        for answer in client.conversations_history(channel=channel, limit=3)
    ]
    assert pages == [["6", "5", "4"], ["3", "2", "1"], ["0", "Welcome, all."]]
    assert len([u for answer in client.users_list(limit=1) for u in answer["members"]]) == 4


def test_sdk_uploads_a_file_into_a_channel(client: WebClient, base: str) -> None:
    channel = _ids(client)["general"]
    done = client.files_upload_v2(
        channel=channel, content="a,b\n1,2\n", filename="t.csv", initial_comment="numbers"
    )
    assert done["file"]["size"] == 8
    last = client.conversations_history(channel=channel, limit=1)["messages"][0]
    assert last["files"][0]["name"] == "t.csv"
    path = last["files"][0]["url_private"].removeprefix("https://slack.com")
    asked = urllib.request.Request(base + path, headers={"Authorization": "Bearer x"})
    assert urllib.request.urlopen(asked, timeout=5).read() == b"a,b\n1,2\n"


def test_sdk_opens_a_conversation_with_a_person_and_finds_it_again(client: WebClient) -> None:
    user = client.users_lookupByEmail(email="Ada@example.com")["user"]["id"]
    first = client.conversations_open(users=[user])["channel"]["id"]
    sent = client.chat_postMessage(channel=user, text="psst")
    assert sent["channel"] == first == client.conversations_open(users=user)["channel"]["id"]


def test_sdk_reacts_and_searches(client: WebClient) -> None:
    sent = client.chat_postMessage(channel="general", text="The invoice is paid")
    where = {"channel": sent["channel"], "timestamp": sent["ts"]}
    client.reactions_add(name="tada", **where)
    newest = client.conversations_history(channel=sent["channel"], limit=1)["messages"][0]
    assert newest["reactions"][0]["count"] == 1
    with pytest.raises(SlackApiError, match="already_reacted"):
        client.reactions_add(name="tada", **where)
    client.reactions_remove(name="tada", **where)
    found = client.search_messages(query="in:#general invoice")["messages"]
    assert [one["ts"] for one in found["matches"]] == [sent["ts"]]


def test_sdk_makes_a_channel_and_invites_people(client: WebClient) -> None:
    made_one = client.conversations_create(name="incident-7")["channel"]
    user = client.users_list()["members"][1]["id"]
    client.conversations_invite(channel=made_one["id"], users=[user])
    assert user in client.conversations_members(channel=made_one["id"])["members"]
    with pytest.raises(SlackApiError, match="name_taken"):
        client.conversations_create(name="incident-7")


def test_sdk_raises_slacks_own_error_codes(client: WebClient, base: str) -> None:
    with pytest.raises(SlackApiError, match="channel_not_found"):
        client.chat_postMessage(channel="C0000000000", text="x")
    with pytest.raises(SlackApiError, match="no_text"):
        client.api_call("chat.postMessage", json={"channel": "general"})
    with pytest.raises(SlackApiError, match="not_authed"):
        WebClient(base_url=f"{base}/api/").auth_test()
    with pytest.raises(SlackApiError, match="unknown_method"):
        client.api_call("chat.shout")
