"""A coding agent: the official Anthropic SDK, streamed, with three tools.

It knows nothing of Paddock.
"""

import subprocess
from pathlib import Path

import anthropic

TASK = "The test of prices.py fails. Find out why, repair it, and run the test again."
TOOLS = [
    {
        "name": "read_file",
        "description": "Return the text of a file.",
        "input_schema": {
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "required": ["path"],
        },
    },
    {
        "name": "write_file",
        "description": "Replace the text of a file.",
        "input_schema": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "text": {"type": "string"}},
            "required": ["path", "text"],
        },
    },
    {
        "name": "run",
        "description": "Run a command and return what it prints.",
        "input_schema": {
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        },
    },
]


def main() -> None:
    client = anthropic.Anthropic()
    messages = [{"role": "user", "content": TASK}]
    while True:
        with client.messages.stream(
            model="claude-opus-4-8", max_tokens=1000, messages=messages, tools=TOOLS
        ) as stream:
            for text in stream.text_stream:
                print(text, end="", flush=True)
            answer = stream.get_final_message()
        print()
        messages.append({"role": "assistant", "content": answer.content})
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            return
        messages.append({"role": "user", "content": [answer_call(call) for call in calls]})


def answer_call(call) -> dict[str, str]:
    """Carry out one tool call of the model. A tool that fails tells the model why."""
    try:
        result = use_tool(call.name, call.input)
    except OSError as error:
        result = f"error: {error}"
    return {"type": "tool_result", "tool_use_id": call.id, "content": result}


def use_tool(name: str, arguments: dict[str, str]) -> str:
    if name == "read_file":
        return Path(arguments["path"]).read_text()
    if name == "write_file":
        Path(arguments["path"]).write_text(arguments["text"])
        return "written"
    done = subprocess.run(arguments["command"], shell=True, capture_output=True, text=True)
    return f"exit code {done.returncode}\n{done.stdout}{done.stderr}"


if __name__ == "__main__":
    main()
