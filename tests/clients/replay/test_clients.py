"""What real clients make up for each request is no reason for a replay to leave its record."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from clients.replay.support import Site, again, record
from paddock.run.replay.replay import replay

STRIPE = """
import json, os, stripe
stripe.ca_bundle_path = os.environ["SSL_CERT_FILE"]
stripe.api_key = "sk_test_of_the_tests"
made = stripe.Customer.create(name="Zoe")
charge = stripe.Charge.create(amount=1200, currency="usd", source="tok_visa")
print(stripe.Refund.create(charge=charge.id).amount, len(stripe.Charge.list().data))
"""
S3 = """
import boto3, urllib.request
words = dict(aws_access_key_id="AKIAEXAMPLE", aws_secret_access_key="not-a-secret")
s3 = boto3.client("s3", region_name="eu-central-1", **words)
s3.create_bucket(Bucket="reports",
                 CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
s3.put_object(Bucket="reports", Key="a/b.txt", Body=b"hello")
s3.put_object(Bucket="reports", Key="large", Body=b"x" * 2_000_000)
print(s3.get_object(Bucket="reports", Key="a/b.txt")["Body"].read())
keys = dict(Bucket="reports", Key="a/b.txt")
url = s3.generate_presigned_url("get_object", Params=keys, ExpiresIn=60)
print(urllib.request.urlopen(url, timeout=20).read())
up = s3.generate_presigned_url("put_object", Params=keys, ExpiresIn=60)
request = urllib.request.Request(up, b"again", method="PUT")
print(urllib.request.urlopen(request, timeout=20).status)
"""
UPLOADS = """
import os, subprocess
import httpx, requests
URL = "http://up.test/files"
open("small.bin", "wb").write(b"a" * 1000)
open("large.bin", "wb").write(b"b" * 3_000_000)
os.environ.update(PATH="/usr/bin:/bin")
for name in ("small.bin", "large.bin"):
    content = open(name, "rb").read()
    shown = subprocess.run(["curl", "-sS", "-F", "note=hi", "-F", f"file=@{name}", URL],
                           capture_output=True, text=True, check=True)
    print("curl", shown.stdout)
    print("requests", requests.post(URL, files={"f": (name, content)}, timeout=20).text)
    print("httpx", httpx.post(URL, files={"f": (name, content)}, timeout=20).text)
    program = '''
const fs = require("fs");
const form = new FormData();
form.append("note", "hi");
form.append("file", new Blob([fs.readFileSync(process.argv[1])]), "f.bin");
fetch(process.argv[2], {method: "POST", body: form}).then(r => r.text()).then(console.log);
'''
    shown = subprocess.run(["node", "-e", program, name, URL],
                           capture_output=True, text=True, check=True)
    print("node", shown.stdout)
"""
IDS = """
import json, time, urllib.request, uuid
for n in range(3):
    body = {"id": str(uuid.uuid1()), "hex": uuid.uuid1().hex, "note": f"job_{uuid.uuid1()}"}
    headers = {"content-type": "application/json", "x-request-id": str(uuid.uuid4())}
    request = urllib.request.Request("http://up.test/jobs", json.dumps(body).encode(), headers)
    print(urllib.request.urlopen(request, timeout=20).read())
"""
CHANCE = """
import requests
for size in (10, 100_000, 3_000_000):
    with open("/dev/urandom", "rb") as source:
        content = source.read(size)
    for kind in ("application/octet-stream", "application/json"):
        headers = {"content-type": kind}
        print(requests.post("http://up.test/raw", content, headers=headers, timeout=20).text)
    parts = iter([content[: size // 2], content[size // 2 :]])
    print(requests.post("http://up.test/chunked", parts, timeout=20).text)
"""
GRPC = """
import time
import grpc
channel = grpc.insecure_channel("rpc.test:50051")
unary = channel.unary_unary("/test.Echo/Unary")
for n in range(3):
    # No two runs have the same deadline, to the millisecond, three times.
    print(unary(b"hello %d" % n, timeout=5 + time.perf_counter_ns() % 997 / 1000))
"""


@pytest.fixture
def site() -> Iterator[Site]:
    server = Site()
    yield server
    server.shutdown()
    server.server_close()


def test_stripe_with_its_telemetry(tmp_path: Path) -> None:
    ended, out = record(tmp_path, STRIPE, {}, world={"api.stripe.com": "payments"})
    assert out == "1200 1\n"
    replayed, shown = again(ended)
    assert shown == out
    assert any("x-stripe-client-telemetry (Stripe)" in label for label in replayed.varied)


def test_aws_signatures_and_presigned_urls(tmp_path: Path) -> None:
    ended, out = record(tmp_path, S3, {}, world={"*.amazonaws.com": "storage"})
    time.sleep(1.1)  # a signature has the time in seconds: it is to be another one
    replayed, shown = again(ended, clock="real")
    assert shown == out
    assert any("authorization" in label for label in replayed.varied)
    assert any("x-amz-signature" in label for label in replayed.varied)


def test_uploads_of_many_clients_and_sizes(tmp_path: Path, site: Site) -> None:
    assert shutil.which("node"), "the clients of these tests are installed by scripts/test"
    ended, out = record(tmp_path, UPLOADS, {"up.test:80": site.place})
    asked = site.asked
    replayed, shown = again(ended)
    assert (shown, site.asked) == (out, asked)
    assert replayed.varied["body without multipart boundary"] >= 4


def test_any_body_of_any_size_where_that_is_declared(tmp_path: Path, site: Site) -> None:
    ended, out = record(tmp_path, CHANCE, {"up.test:80": site.place})
    replayed = replay(ended.directory)
    assert replayed.divergence is not None  # what it draws from the kernel is new each time
    assert again(ended, "body=any")[1] == out


def test_ids_that_begin_with_the_time(tmp_path: Path, site: Site) -> None:
    ended, out = record(tmp_path, IDS, {"up.test:80": site.place})
    replayed, shown = again(ended, clock="real")
    assert shown == out
    assert "the present moment" in replayed.varied


def test_grpc_with_a_deadline(tmp_path: Path) -> None:
    import grpc

    def echo(request: bytes, context: object) -> bytes:
        return b"echo " + request

    method = grpc.unary_unary_rpc_method_handler(echo)
    server = grpc.server(ThreadPoolExecutor(2))
    handler = grpc.method_handlers_generic_handler("test.Echo", {"Unary": method})
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        ended, out = record(tmp_path, GRPC, {"rpc.test:50051": f"127.0.0.1:{port}"})
    finally:
        server.stop(None)
    replayed, shown = again(ended)
    assert shown == out
    assert any("grpc-timeout" in label for label in replayed.varied)
