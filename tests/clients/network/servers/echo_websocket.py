"""A WebSocket server that says back what it hears, over TLS with a certificate and a key as
arguments. Prints its port."""

import asyncio
import ssl
import sys

from websockets.asyncio.server import serve


async def echo(connection):
    async for message in connection:
        if message == "close, please":
            await connection.close(4001, "as you wish")
            return
        await connection.send(message)


async def main():
    context = None
    if len(sys.argv) > 1:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*sys.argv[1:3])
    async with serve(
        echo, "127.0.0.1", 0, ssl=context, max_size=None, subprotocols=["chat"]
    ) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


asyncio.run(main())
