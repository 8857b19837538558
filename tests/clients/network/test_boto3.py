"""boto3 on a stand-in of S3: signed bodies, trailers, parts in parallel, ranges."""

from __future__ import annotations

import hashlib

import pytest

from clients.network.conftest import WITHOUT_PROXY, MakeBox, MakeSite
from clients.network.crossings import requests, seen
from clients.network.inside import python
from clients.network.object_store import ObjectStore
from paddock import Sandbox

HOST = "reports.s3.eu-central-1.amazonaws.com"
ENVS = {
    "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "not-a-secret",
    "AWS_DEFAULT_REGION": "eu-central-1",
    "AWS_MAX_ATTEMPTS": "1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
CLIENT = "import boto3, hashlib, io, json\ns3 = boto3.client('s3')\n"
CALLS = """
s3.put_object(Bucket="reports", Key="a/ä b.txt", Body=b"hello")
got = s3.get_object(Bucket="reports", Key="a/ä b.txt")["Body"].read().decode()
listed = [one["Key"] for one in s3.list_objects_v2(Bucket="reports", Prefix="a/")["Contents"]]
s3.delete_object(Bucket="reports", Key="a/ä b.txt")
try:
    s3.get_object(Bucket="reports", Key="a/ä b.txt")
    after = "there"
except s3.exceptions.NoSuchKey:
    after = "gone"
print(json.dumps([got, listed, after]))
"""
LARGE = """
content = bytes(range(256)) * 81920
s3.upload_fileobj(io.BytesIO(content), "reports", "large.bin")
back = io.BytesIO()
s3.download_fileobj("reports", "large.bin", back)
print(json.dumps([len(content), back.getvalue() == content]))
"""


@pytest.fixture
def store() -> ObjectStore:
    return ObjectStore()


@pytest.fixture
def sites(make_site: MakeSite, store: ObjectStore) -> dict[str, str]:
    return {f"{HOST}:443": make_site(store, HOST).place}


@pytest.mark.parametrize("envs", [{}, WITHOUT_PROXY], ids=["proxy", "redirect"])
def test_objects_are_put_got_listed_and_deleted(
    make_box: MakeBox, sites: dict[str, str], envs: dict[str, str]
) -> None:
    box: Sandbox = make_box(sites, envs=ENVS)
    assert python(box, CLIENT + CALLS, envs) == ["hello", ["a/ä b.txt"], "gone"]
    path = "/a/%C3%A4%20b.txt"
    assert [seen(one) for one in requests(box)] == [
        (HOST, "PUT", path, 200, "allow"),
        (HOST, "GET", path, 200, "allow"),
        (HOST, "GET", "/", 200, "allow"),
        (HOST, "DELETE", path, 204, "allow"),
        (HOST, "GET", path, 404, "allow"),
    ]
    assert box.alerts() == []


def test_large_object_goes_in_parts_and_comes_in_ranges(
    make_box: MakeBox, sites: dict[str, str], store: ObjectStore
) -> None:
    box: Sandbox = make_box(sites, envs=ENVS)
    size, is_same = python(box, CLIENT + LARGE)
    assert is_same
    expected = hashlib.sha256(bytes(range(256)) * 81920).digest()
    assert hashlib.sha256(store.objects["large.bin"]).digest() == expected
    journal = requests(box)
    sent = sum(one.result["sent"]["bytes"] for one in journal if one.request[0] == "PUT")
    assert sent >= size
    assert len([one for one in journal if one.request[0] == "PUT"]) >= 3
    assert {one.verdict for one in journal} == {"allow"}
    assert {one.status for one in journal} <= {200, 206}


def test_rule_keeps_an_agent_from_deleting(
    make_box: MakeBox, sites: dict[str, str], store: ObjectStore
) -> None:
    rules = f"""
rules:
  - id: keep
    match: {{kind: http, host: {HOST}, method: DELETE}}
    decide: block
    why: Reports are kept.
"""
    box: Sandbox = make_box(sites, rules, envs=ENVS)
    store.objects["kept"] = b"x"
    program = """
from botocore.exceptions import ClientError
try:
    s3.delete_object(Bucket="reports", Key="kept")
except ClientError as error:
    print(json.dumps(error.response["ResponseMetadata"]["HTTPStatusCode"]))
"""
    assert python(box, CLIENT + program) == 403
    assert store.objects["kept"] == b"x"
    last = requests(box)[-1]
    assert (last.request, last.verdict, last.rule) == (("DELETE", "/kept"), "block", "keep")
