"""gRPC's own library: calls with deadlines and metadata, several at once, streams in both
directions, an error with its status, and a retry after one."""

import json
import queue
import uuid
from concurrent.futures import ThreadPoolExecutor

import grpc

RETRY = {
    "maxAttempts": 3,
    "initialBackoff": "0.05s",
    "maxBackoff": "0.1s",
    "backoffMultiplier": 2,
    "retryableStatusCodes": ["UNAVAILABLE"],
}
CONFIG = json.dumps(
    {"methodConfig": [{"name": [{"service": "stock.Stock"}], "retryPolicy": RETRY}]}
)
channel = grpc.insecure_channel("stock.example:50051", [("grpc.service_config", CONFIG)])
count = channel.unary_unary("/stock.Stock/Count")
watch = channel.unary_stream("/stock.Stock/Watch")
adjust = channel.stream_stream("/stock.Stock/Adjust")

metadata = [("x-request-id", str(uuid.uuid4()))]
with ThreadPoolExecutor(3) as threads:
    items = [b"lamp", b"desk", b"chair"]
    counts = list(threads.map(lambda item: count(item, timeout=20, metadata=metadata), items))
with open("counts.txt", "wb") as file:
    file.write(b"\n".join(counts) + b"\n")
try:
    count(b"unknown", timeout=20)
except grpc.RpcError as error:
    print(error.code().name, error.details(), dict(error.trailing_metadata()).get("x-hint"))
with open("events.txt", "wb") as file:
    for event in watch(b"lamp", timeout=20):
        file.write(event + b"\n")
changes = queue.Queue()
changes.put(b"lamp+1")
adjusted = []
for done in adjust(iter(changes.get, None), timeout=20):  # a conversation: each waits for the other
    adjusted.append(done)
    changes.put(b"desk-1" if len(adjusted) == 1 else None)
answer, call = count.with_call(b"busy", timeout=20)
report = f"{b' '.join(adjusted).decode()} {answer.decode()}\n"
print(report, end="")
with open("report.txt", "w") as file:
    file.write(report)
