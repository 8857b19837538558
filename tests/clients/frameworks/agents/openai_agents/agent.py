"""The OpenAI Agents SDK: asynchronous, streamed, over the Responses API."""

import asyncio
import json

import agents
import httpx
import work


@agents.function_tool
async def refund(charge: str) -> str:
    """Pays a charge back."""
    async with httpx.AsyncClient(base_url=work.PAYMENTS, headers=work.HEADERS) as client:
        made = await client.post("/v1/refunds", data={"charge": charge})
    if made.status_code != 200:
        return json.dumps({"status": "refused", "code": made.status_code})
    return json.dumps({field: made.json()[field] for field in ("status", "amount", "id")})


def tool(function):
    async def in_thread(context, arguments):
        return await asyncio.to_thread(function, **json.loads(arguments))

    made = agents.function_tool(function)
    made.on_invoke_tool = in_thread
    return made


async def main():
    tools = [tool(work.take_ticket), tool(work.find_charge), refund, tool(work.write_note)]
    agent = agents.Agent("support", instructions="You help customers.", model="gpt-5", tools=tools)
    running = agents.Runner.run_streamed(agent, work.TASK)
    async for event in running.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            print(event.data.delta, end="|")
    print(running.final_output)


asyncio.run(main())
