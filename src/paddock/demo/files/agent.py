"""A support agent: the official OpenAI SDK, six tools and a loop. It knows nothing of Paddock.

It works the queue of a help desk: reads tickets, looks up payments, computes, refunds, writes to
customers. Every service is called under its real name, so the same file works against real ones.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import httpx
import openai

MODEL = "gpt-5"
DESK = "https://acme.zendesk.com/api/v2"
PAYMENTS = "https://api.stripe.com/v1"
MAIL = "https://api.sendgrid.com/v3"

http = httpx.Client(timeout=60)  # a person may have to be asked first
Args = dict[str, Any]


def main() -> None:
    """The loop: ask the model, do what it asks for, tell it what came of it, until it is done."""
    client = openai.OpenAI()
    messages: list[Any] = [
        {"role": "system", "content": "You are the support agent of Acme. Work the open tickets."},
        {"role": "user", "content": "Please work the queue."},
    ]
    while True:
        chat = client.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS)
        answer = chat.choices[0].message
        messages.append(answer)
        if answer.content:
            print(answer.content, flush=True)
        if not answer.tool_calls:
            return
        messages += [use_tool(call) for call in answer.tool_calls]


def use_tool(call: Any) -> dict[str, Any]:
    """A tool that fails is no reason to stop: the model is told why, and decides."""
    try:
        arguments = json.loads(call.function.arguments)
        result = DEEDS[call.function.name](arguments, call.id)
    except (httpx.HTTPError, subprocess.SubprocessError, ValueError, KeyError) as error:
        result = {"error": str(error)}
    return {"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)}


# --- the tools -------------------------------------------------------------------------------


def list_tickets(args: Args, call: str) -> Any:
    found = request("GET", f"{DESK}/tickets", params={"include": "users"})
    people = {user["id"]: user["email"] for user in found.get("users", [])}
    return [
        {
            "id": ticket["id"],
            "from": people.get(ticket["requester_id"]),
            "subject": ticket["subject"],
            "text": ticket["description"],
        }
        for ticket in found["tickets"]
    ]


def update_ticket(args: Args, call: str) -> Any:
    comment = {"body": args["note"], "public": False}
    ticket = {"ticket": {"status": args["status"], "comment": comment}}
    request("PUT", f"{DESK}/tickets/{args['id']}", json=ticket)
    return {"id": args["id"], "status": args["status"]}


def find_payments(args: Args, call: str) -> Any:
    [customer] = request("GET", f"{PAYMENTS}/customers", params={"email": args["email"]})["data"]
    found = request("GET", f"{PAYMENTS}/charges", params={"customer": customer["id"]})["data"]
    return [{"charge": one["id"], "amount": one["amount"]} for one in found]


def refund(args: Args, call: str) -> Any:
    # The id of the model's call is the key: one call is one refund, however often it is sent.
    key = {"Idempotency-Key": call}
    form = {"charge": args["charge"], "amount": args["amount"]}
    return request("POST", f"{PAYMENTS}/refunds", headers=key, data=form)


def send_mail(args: Args, call: str) -> Any:
    letter = {
        "from": {"email": "support@acme.example"},
        "personalizations": [{"to": [{"email": args["to"]}]}],
        "subject": args["subject"],
        "content": [{"type": "text/plain", "value": args["text"]}],
    }
    return request("POST", f"{MAIL}/mail/send", json=letter)


def run_python(args: Args, call: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", args["code"]], capture_output=True, text=True, timeout=20
    )
    return {"printed": done.stdout.strip(), "error": done.stderr.strip()[-300:]}


# --- what they share -------------------------------------------------------------------------


def request(method: str, url: str, **words: Any) -> Any:
    """Raises when the answer is no. When none came back, it may have been done all the same: it is
    sent again, after a pause, only if to do it twice is to do it once."""
    is_repeatable = method != "POST" or "Idempotency-Key" in words.get("headers", {})
    for pause_s in (0.2, 0.5, None):
        try:
            answer = http.request(method, url, auth=login(url), **words)
        except httpx.TransportError:
            if pause_s is None or not is_repeatable:
                raise
            time.sleep(pause_s)
        else:
            break
    if answer.is_error:
        raise httpx.HTTPError(f"{answer.status_code}: {answer.text[:300]}")
    return answer.json() if answer.content else {}


def login(url: str) -> tuple[str, str] | None:
    if url.startswith(PAYMENTS):
        return (os.environ["STRIPE_KEY"], "")
    if url.startswith(DESK):
        return ("ada@acme.example/token", "any")
    return None


def tool(name: str, about: str, **fields: str) -> Any:
    """A tool as the model is told of it."""
    properties = {field: {"type": kind} for field, kind in fields.items()}
    schema = {"type": "object", "properties": properties, "required": list(fields)}
    return {
        "type": "function",
        "function": {"name": name, "description": about, "parameters": schema},
    }


DEEDS: dict[str, Callable[[Args, str], Any]] = {
    "list_tickets": list_tickets,
    "update_ticket": update_ticket,
    "find_payments": find_payments,
    "refund": refund,
    "send_mail": send_mail,
    "run_python": run_python,
}
TOOLS = [
    tool("list_tickets", "All open tickets."),
    tool(
        "update_ticket", "Sets a status, with a note.", id="integer", status="string", note="string"
    ),
    tool("find_payments", "What a customer has paid, in cents.", email="string"),
    tool("refund", "Gives money of a charge back, in cents.", charge="string", amount="integer"),
    tool("send_mail", "A letter to a customer.", to="string", subject="string", text="string"),
    tool("run_python", "Runs a program and gives back what it prints.", code="string"),
]

if __name__ == "__main__":
    main()
