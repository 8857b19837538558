"""Anthropic's own library: every answer is streamed, and tools run in threads."""

from concurrent.futures import ThreadPoolExecutor

import anthropic
import work

TOOLS = [work.take_ticket, work.find_charge, work.refund, work.write_note]
client = anthropic.Anthropic()


def definition(tool):
    names = [name for name in tool.__annotations__ if name != "return"]
    schema = {"type": "object", "properties": {name: {} for name in names}, "required": names}
    return {"name": tool.__name__, "description": tool.__doc__, "input_schema": schema}


def ask(messages):
    """Stream an answer, and print its text as it comes."""
    with client.messages.stream(
        model="claude-opus-4-8",
        max_tokens=1000,
        system="You help customers.",
        tools=[definition(tool) for tool in TOOLS],
        messages=messages,
    ) as stream:
        for text in stream.text_stream:
            print(text, end="|")
        print()
        return stream.get_final_message()


def carry_out(call):
    tool = next(tool for tool in TOOLS if tool.__name__ == call.name)
    return {"type": "tool_result", "tool_use_id": call.id, "content": tool(**call.input)}


messages = [{"role": "user", "content": work.TASK}]
with ThreadPoolExecutor() as threads:
    while (answer := ask(messages)).stop_reason == "tool_use":
        calls = [block for block in answer.content if block.type == "tool_use"]
        content = [block.model_dump(exclude_none=True) for block in answer.content]
        messages.append({"role": "assistant", "content": content})
        messages.append({"role": "user", "content": list(threads.map(carry_out, calls))})
