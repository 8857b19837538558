"""The official SDKs inside a sandbox, unchanged and with their default settings: over TLS, by the
names of the real hosts, and answered by stand-ins."""

from __future__ import annotations

from pathlib import Path

import pytest

from clients.network.inside import python
from clients.world.conftest import MakeBox

SCRIPT = {
    "turns": [
        {
            "match": {"user": "weather", "turn": 1},
            "answer": {"tool_calls": [{"name": "weather", "arguments": {"city": "Graz"}}]},
        },
        {"match": {"tool_result": "weather"}, "answer": "It rains in Graz."},
    ]
}


def test_stripe_pays_and_refunds(make_box: MakeBox) -> None:
    box = make_box({"api.stripe.com": "payments"})
    said = python(box, """
import json, stripe
stripe.api_key = "sk_test_inside"
ada = stripe.Customer.create(email="ada@example.com", metadata={"plan": "pro"})
paid = stripe.PaymentIntent.create(
    amount=1200, currency="usd", customer=ada.id, payment_method="pm_card_visa", confirm=True,
    automatic_payment_methods={"enabled": True, "allow_redirects": "never"})
back = stripe.Refund.create(payment_intent=paid.id, amount=200, idempotency_key="one")
again = stripe.Refund.create(payment_intent=paid.id, amount=200, idempotency_key="one")
try:
    stripe.Refund.create(payment_intent=paid.id, amount=100_000)
except stripe.InvalidRequestError as error:
    refused = error.http_status
found = [one.email for one in stripe.Customer.list(limit=1).auto_paging_iter()]
print(json.dumps([paid.status, back.status, back.id == again.id, refused, found]))
""")  # fmt: skip
    assert said == ["succeeded", "succeeded", True, 400, ["ada@example.com"]]


def test_slack_posts_and_reads(make_box: MakeBox) -> None:
    box = make_box({"slack.com": {"service": "chat", "also": ["www.slack.com"]}})
    said = python(box, """
import json
from slack_sdk import WebClient
client = WebClient(token="xoxb-inside")
channel = client.conversations_list()["channels"][0]
sent = client.chat_postMessage(channel=channel["id"], text="Done.")
read = client.conversations_history(channel=channel["id"])["messages"]
print(json.dumps([sent["ok"], read[0]["text"]]))
""")  # fmt: skip
    assert said == [True, "Done."]


def test_github_opens_an_issue(make_box: MakeBox) -> None:
    seed = {"repos": [{"full_name": "acme/shop", "files": {"README.md": "# Shop"}}]}
    box = make_box({"api.github.com": {"service": "forge", "seed": seed}})
    said = python(box, """
import json
from github import Auth, Github
repo = Github(auth=Auth.Token("ghp_inside")).get_repo("acme/shop")
issue = repo.create_issue("It is broken", body="See the log.")
issue.create_comment("Looking.")
readme = repo.get_contents("README.md").decoded_content.decode()
print(json.dumps([issue.number, [one.title for one in repo.get_issues()], readme]))
""")  # fmt: skip
    assert said == [1, ["It is broken"], "# Shop"]


def test_boto3_stores_and_lists(make_box: MakeBox) -> None:
    box = make_box(
        {"s3.amazonaws.com": "storage"},
        envs={
            "AWS_ACCESS_KEY_ID": "AKIAINSIDE",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
        },
    )
    said = python(box, """
import json, boto3
s3 = boto3.client("s3")
s3.create_bucket(Bucket="reports")
s3.put_object(Bucket="reports", Key="a/one.txt", Body=b"first", Metadata={"by": "agent"})
read = s3.get_object(Bucket="reports", Key="a/one.txt")
keys = [one["Key"] for one in s3.list_objects_v2(Bucket="reports")["Contents"]]
print(json.dumps([read["Body"].read().decode(), read["Metadata"], keys]))
""")  # fmt: skip
    assert said == ["first", {"by": "agent"}, ["a/one.txt"]]


@pytest.mark.parametrize("is_streaming", [False, True])
def test_openai_runs_a_scripted_turn(make_box: MakeBox, *, is_streaming: bool) -> None:
    script = {"rules": [{"match": {"user": "weather"}, "answer": "Rain."}]}
    box = make_box(
        {"api.openai.com": {"service": "model", "script": script}},
        envs={"OPENAI_API_KEY": "sk-inside"},
    )
    said = python(box, f"""
import json
from openai import OpenAI
asked = [{{"role": "user", "content": "The weather?"}}]
answer = OpenAI().chat.completions.create(model="gpt-4o", messages=asked, stream={is_streaming})
if {is_streaming}:
    text = "".join(part.choices[0].delta.content or "" for part in answer if part.choices)
else:
    text = answer.choices[0].message.content
print(json.dumps(text))
""")  # fmt: skip
    assert said == "Rain."


def test_anthropic_calls_a_tool_and_goes_on(make_box: MakeBox) -> None:
    box = make_box(
        {"api.anthropic.com": {"service": "model", "script": SCRIPT}},
        envs={"ANTHROPIC_API_KEY": "sk-ant-inside"},
    )
    said = python(box, """
import json
from anthropic import Anthropic
tools = [{"name": "weather", "description": "Of a city.", "input_schema": {
    "type": "object", "properties": {"city": {"type": "string"}}}}]
messages = [{"role": "user", "content": "How is the weather in Graz?"}]
client, called = Anthropic(), []
for _ in range(3):
    with client.messages.stream(
            model="claude-sonnet-4-5", max_tokens=100, messages=messages, tools=tools) as stream:
        answer = stream.get_final_message()
    if answer.stop_reason != "tool_use":
        break
    asked = [block for block in answer.content if block.type == "tool_use"]
    called += [[one.name, one.input] for one in asked]
    messages.append({"role": "assistant", "content": [b.model_dump() for b in answer.content]})
    messages.append({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": one.id, "content": "rain"} for one in asked]})
print(json.dumps([called, answer.content[0].text]))
""")  # fmt: skip
    assert said == [[["weather", {"city": "Graz"}]], "It rains in Graz."]


def test_psycopg_queries_a_seeded_database(make_box: MakeBox, tmp_path: Path) -> None:
    seed = tmp_path / "shop.sql"
    seed.write_text("CREATE TABLE items (id int PRIMARY KEY, name text);"
                    "INSERT INTO items VALUES (1, 'lamp'), (2, 'desk');")  # fmt: skip
    box = make_box({"db.example:5432": {"service": "postgres", "seed": str(seed)}})
    said = python(box, """
import json, psycopg
with psycopg.connect("postgresql://shop:secret@db.example/shop") as connection:
    connection.execute("INSERT INTO items VALUES (3, 'chair')")
    rows = connection.execute("SELECT name FROM items ORDER BY id").fetchall()
print(json.dumps([name for name, in rows]))
""")  # fmt: skip
    assert said == ["lamp", "desk", "chair"]


@pytest.mark.parametrize("port", [25, 465, 587])
def test_smtplib_sends_mail(make_box: MakeBox, port: int) -> None:
    box = make_box({"mail.example": "mail"})
    said = python(box, f"""
import json, smtplib, ssl, urllib.request
from email.message import EmailMessage
message = EmailMessage()
message["From"], message["To"], message["Subject"] = "a@acme.example", "b@acme.example", "Hello"
message.set_content("Text.")
kind = smtplib.SMTP_SSL if {port} == 465 else smtplib.SMTP
with kind("mail.example", {port}, timeout=20) as server:
    if {port} == 587:
        server.starttls(context=ssl.create_default_context())
        server.login("a", "secret")
    refused = server.send_message(message)
with urllib.request.urlopen("https://mail.example/outbox") as answer:
    outbox = json.load(answer)
print(json.dumps([refused, str(outbox).count("Hello") > 0]))
""")  # fmt: skip
    assert said == [{}, True]
