"""A gRPC server without a schema, for the agent with grpcio. No test lives here."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc

_STOCK = {b"lamp": b"3", b"desk": b"0", b"chair": b"12"}


class StockServer:
    """Counts, watches and adjusts a stock that stays as it is. The first question for `busy` finds
    the server down; one that is asked again is answered."""

    def __init__(self) -> None:
        methods = {
            "Count": grpc.unary_unary_rpc_method_handler(self._count),
            "Watch": grpc.unary_stream_rpc_method_handler(self._watch),
            "Adjust": grpc.stream_stream_rpc_method_handler(self._adjust),
        }
        handler = grpc.method_handlers_generic_handler("stock.Stock", methods)
        self._server = grpc.server(ThreadPoolExecutor(8), handlers=[handler])
        self.port = self._server.add_insecure_port("127.0.0.1:0")

    def __enter__(self) -> StockServer:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None)

    def _count(self, item: bytes, context: grpc.ServicerContext) -> bytes:
        if item == b"busy":
            if "grpc-previous-rpc-attempts" not in dict(context.invocation_metadata()):
                context.abort(grpc.StatusCode.UNAVAILABLE, "restarting")
            return b"ready"
        if item not in _STOCK:
            context.set_trailing_metadata((("x-hint", "ask for lamp, desk or chair"),))
            context.abort(grpc.StatusCode.NOT_FOUND, "no such item")
        return item + b" " + _STOCK[item]

    def _watch(self, item: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        for number in range(3):
            yield item + b" event %d" % number

    def _adjust(self, changes: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        for change in changes:
            yield b"done " + change
