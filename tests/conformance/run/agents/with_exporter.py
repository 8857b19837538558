import json
import os
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from wire import ask

PLACES = [
    ("https://shop.example/v1/traces", "application/json"),
    ("https://shop.example/v1/logs", "application/x-protobuf"),
    ("https://telemetry.example/v1/metrics", "application/json"),
]
OPENERS = [
    urllib.request.build_opener(),
    urllib.request.build_opener(urllib.request.ProxyHandler({})),  # asks for names by itself
]
spans, ended = [], threading.Event()


def export():
    """Whatever gathered meanwhile, at moments that are others each time."""
    jitter = time.perf_counter_ns()
    for place, kind in PLACES:
        sent = {"spans": spans[:], "pid": os.getpid(), "jitter": jitter, "at": time.time()}
        data = json.dumps(sent).encode() + b" " * (jitter % 2000)
        request = urllib.request.Request(place, data=data, headers={"content-type": kind})
        try:
            with OPENERS[jitter % 2].open(request, timeout=20) as answer:
                answer.read()
        except (urllib.error.URLError, OSError):
            pass  # nobody is to notice


def by_the_clock():
    while not ended.wait(0.001 + time.perf_counter_ns() % 40 / 1000):
        export()


exporter = threading.Thread(target=by_the_clock)
exporter.start()
said = ""
for number in range(8):
    spans.append(f"span {number}")
    said = ask(f"{number}: {said[:14]}")
    Path(f"told-{number % 3}.txt").write_text(said)
    time.sleep(time.perf_counter_ns() % 30 / 1000)
    print(said)
ended.set()
exporter.join()
if time.perf_counter_ns() % 2:
    export()
