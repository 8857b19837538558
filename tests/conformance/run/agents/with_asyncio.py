import asyncio

from wire import ask


async def one(name):
    first = await asyncio.to_thread(ask, f"{name} first")
    return await asyncio.to_thread(ask, f"{name} after {first[:12]}")


async def main():
    told = []
    for done in asyncio.as_completed([one(f"task {n}") for n in range(5)]):
        told.append(await done)  # what is asked next depends on who was first
        told.append(await asyncio.to_thread(ask, f"so far {len(told)}: {told[-1][:24]}"))
    print(await asyncio.to_thread(ask, " / ".join(line[:16] for line in told)))


asyncio.run(main())
