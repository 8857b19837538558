"""OpenAI's own library: asynchronous chat completions, streamed, with tools side by side."""

import asyncio
import inspect
import json

import openai
import work

TOOLS = [work.take_ticket, work.find_charge, work.refund, work.write_note]
client = openai.AsyncOpenAI()


def definition(tool):
    names = list(inspect.signature(tool).parameters)
    schema = {"type": "object", "properties": {name: {} for name in names}, "required": names}
    function = {"name": tool.__name__, "description": tool.__doc__, "parameters": schema}
    return {"type": "function", "function": function}


async def ask(messages):
    """Stream an answer, and print its text as it comes."""
    async with client.chat.completions.stream(
        model="gpt-4.1", messages=messages, tools=[definition(tool) for tool in TOOLS]
    ) as stream:
        async for event in stream:
            if event.type == "content.delta":
                print(event.delta, end="|")
        print()
        return (await stream.get_final_completion()).choices[0].message


async def carry_out(call):
    tool = next(tool for tool in TOOLS if tool.__name__ == call.function.name)
    result = await asyncio.to_thread(tool, **json.loads(call.function.arguments))
    return {"role": "tool", "tool_call_id": call.id, "content": result}


async def main():
    messages = [
        {"role": "system", "content": "You help customers."},
        {"role": "user", "content": work.TASK},
    ]
    while (answer := await ask(messages)).tool_calls:
        messages.append(answer.model_dump(exclude_none=True))
        messages += await asyncio.gather(*map(carry_out, answer.tool_calls))


asyncio.run(main())
