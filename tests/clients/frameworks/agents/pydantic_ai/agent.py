"""Pydantic AI over Anthropic's API: asynchronous, streamed, two tools at once."""

import asyncio

import pydantic_ai
import work

agent = pydantic_ai.Agent(
    "anthropic:claude-sonnet-4-5",
    instructions="You help customers.",
    tools=[work.take_ticket, work.find_charge, work.refund, work.write_note],
)


async def told(context, events):
    async for event in events:
        print(event.event_kind, getattr(event, "index", ""))


async def main():
    done = await agent.run(work.TASK, event_stream_handler=told)
    print(done.usage.requests, "requests;", done.output)


asyncio.run(main())
