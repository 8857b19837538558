"""A gRPC server without a schema: bytes in, bytes out. Over TLS with a certificate and a key as
arguments. Prints its port."""

import sys
from concurrent import futures
from pathlib import Path

import grpc


def unary(request, context):
    context.set_trailing_metadata(
        (("x-seen", dict(context.invocation_metadata()).get("x-who", "")),)
    )
    if request == b"fail":
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, "as you wish")
    return b"echo " + request


def chat(requests, context):
    for request in requests:
        yield b"heard " + request


HANDLERS = grpc.method_handlers_generic_handler(
    "test.Echo",
    {
        "Unary": grpc.unary_unary_rpc_method_handler(unary),
        "Chat": grpc.stream_stream_rpc_method_handler(chat),
    },
)


def main():
    options = [("grpc.max_receive_message_length", -1)]
    server = grpc.server(futures.ThreadPoolExecutor(8), handlers=[HANDLERS], options=options)
    if len(sys.argv) > 1:
        certificate, key = (Path(path).read_bytes() for path in sys.argv[1:3])
        credentials = grpc.ssl_server_credentials([(key, certificate)])
        port = server.add_secure_port("127.0.0.1:0", credentials)
    else:
        port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    server.wait_for_termination()


main()
