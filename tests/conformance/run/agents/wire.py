"""What the agents share: questions to the model, calls of the payments, with the library alone."""

import json
import urllib.error
import urllib.parse
import urllib.request

MODEL = "https://api.anthropic.com/v1/messages"
PAYMENTS = "https://api.stripe.com"


def request_for(text, **more):
    body = {"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": text}], **more}
    headers = {
        "content-type": "application/json",
        "x-api-key": "k",
        "anthropic-version": "2023-06-01",
    }
    return urllib.request.Request(MODEL, data=json.dumps(body).encode(), headers=headers)


def ask(text, **more):
    with urllib.request.urlopen(request_for(text, **more), timeout=60) as answer:
        return json.load(answer)["content"][0]["text"]


def pay(method, path, key=None, **form):
    data = urllib.parse.urlencode(form).encode() if form else None
    headers = {"authorization": "Bearer sk_test_x", **({"idempotency-key": key} if key else {})}
    request = urllib.request.Request(PAYMENTS + path, data=data, headers=headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)
