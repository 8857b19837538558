import json
import urllib.request

from wire import ask, request_for


def events(text):
    with urllib.request.urlopen(request_for(text, stream=True), timeout=60) as answer:
        for line in answer:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])


said = ""
for number in range(3):
    parts = [
        e["delta"].get("text", "")
        for e in events(f"tell {number} {said[-30:]}")
        if e["type"] == "content_block_delta"
    ]
    said = "".join(parts)
    print(len(parts), said[:20])
print(ask(said))
