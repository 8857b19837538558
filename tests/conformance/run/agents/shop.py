"""A shop of its own, with sessions: what with_cookies.py speaks to."""

import json
import secrets

sessions = {}


async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    body, more = b"", True
    while more:
        event = await receive()
        body, more = body + event.get("body", b""), event.get("more_body", False)
    headers = dict(scope["headers"])
    extra, said = [], {}
    if scope["path"] == "/login":
        token = secrets.token_hex(16)
        sessions[token] = json.loads(body)["name"]
        extra = [
            (b"set-cookie", f"session={token}; Path=/; Secure".encode()),
            (b"set-cookie", b"theme=dark; Path=/"),
        ]
    elif scope["path"] == "/page":
        cookie = headers.get(b"cookie", b"").decode()
        found = [name for token, name in sessions.items() if f"session={token}" in cookie]
        said = {"user": found[0] if found else None, "theme": "theme=dark" in cookie}
    else:
        said = {"bytes": len(body)}
    raw = json.dumps(said).encode()
    await send(
        {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-type", b"application/json"), *extra],
        }
    )
    await send({"type": "http.response.body", "body": raw})
