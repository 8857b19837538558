"""A stock agent: Pydantic AI over Anthropic's API, streamed, with tools that run at the same time.

It knows nothing of Paddock.
"""

import asyncio
import os

import httpx
import pydantic_ai

SHOP = "https://shop.example"
agent = pydantic_ai.Agent("anthropic:claude-opus-4-8", instructions="You keep the stock of a shop.")


@agent.tool_plain
async def stock_of(product: str) -> int:
    """Return how many pieces of a product are left."""
    async with httpx.AsyncClient() as client:
        answer = await client.get(f"{SHOP}/stock/{product}")
    return answer.raise_for_status().json()["left"]


@agent.tool_plain
async def order(product: str, pieces: int) -> str:
    """Order pieces of a product from its supplier."""
    key = {"Authorization": f"Bearer {os.environ['SHOP_KEY']}"}
    async with httpx.AsyncClient(timeout=90) as client:  # a person may have to be asked first
        answer = await client.post(
            f"{SHOP}/orders", json={"product": product, "pieces": pieces}, headers=key
        )
    return answer.text


async def main() -> None:
    async with agent.run_stream("Order what runs out: tea, coffee, cocoa.") as answer:
        async for text in answer.stream_text(delta=True):
            print(text, end="", flush=True)
    print()


asyncio.run(main())
