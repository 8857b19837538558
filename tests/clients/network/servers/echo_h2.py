"""An HTTP server that says what it got: HTTP/2 over TLS with a certificate and a key as arguments,
HTTP/2 without TLS without them. Prints its port."""

import asyncio
import socket
import sys

from hypercorn.asyncio import serve
from hypercorn.config import Config


async def app(scope, receive, send):
    if scope["type"] != "http":
        raise NotImplementedError
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    said = f"{scope['http_version']} {scope['method']} {scope['path']} ".encode() + body
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": said})


def main():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    config = Config()
    config.bind = [f"fd://{listener.fileno()}"]
    config.accesslog = None
    config.errorlog = None
    if len(sys.argv) > 1:
        config.certfile, config.keyfile = sys.argv[1:3]
    print(listener.getsockname()[1], flush=True)
    asyncio.run(serve(app, config))


main()
