"""Google's own library: a loop with tools, an answer in a stream, retries."""

import json

from google import genai
from google.genai import types

ORDERS = {"A-17": "shipped on Monday", "B-4": "waiting for payment"}


def look_up(order: str) -> dict:
    return {"state": ORDERS.get(order, "unknown")}


def note(text: str) -> dict:
    with open("notes.txt", "a") as file:
        file.write(text + "\n")
    return {"written": len(text)}


TOOLS = {"look_up": look_up, "note": note}
retries = types.HttpRetryOptions(attempts=4, initial_delay=0.1, http_status_codes=[429, 503])
client = genai.Client(http_options=types.HttpOptions(retry_options=retries))
config = types.GenerateContentConfig(
    system_instruction="You work on orders.",
    temperature=0,
    tools=[
        types.Tool(
            function_declarations=[
                {"name": name, "description": name, "parameters_json_schema": {"type": "object"}}
                for name in TOOLS
            ]
        )
    ],
    automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
)
contents = [types.Content(role="user", parts=[types.Part(text="Where are A-17 and B-4?")])]
while True:
    answer = client.models.generate_content(
        model="gemini-2.5-flash", contents=contents, config=config
    )
    content = answer.candidates[0].content
    contents.append(content)
    calls = [part.function_call for part in content.parts if part.function_call]
    if not calls:
        break
    parts = [
        types.Part.from_function_response(name=call.name, response=TOOLS[call.name](**call.args))
        for call in calls
    ]
    contents.append(types.Content(role="user", parts=parts))
contents.append(types.Content(role="user", parts=[types.Part(text="Write it as a report.")]))
pieces = client.models.generate_content_stream(
    model="gemini-2.5-flash", contents=contents, config=config
)
report = "".join(piece.text or "" for piece in pieces)
with open("report.txt", "w") as file:
    file.write(report)
print(json.dumps({"report": report}))
