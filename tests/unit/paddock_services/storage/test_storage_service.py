"""The storage as boto3 meets it, and as a world keeps it."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from paddock.model.errors import InvalidInput
from paddock.world.context import Context
from paddock.world.registry import load_service
from paddock.world.store import Store
from paddock_services.storage import Storage
from unit.world.services.app.doorway import ask, body, context, door

SEED = {"buckets": {"reports": {"2026/a.txt": "hello", "b.json": "{}"}, "empty": {}}}
Work = Callable[[Any], Any]


def storage(place: Path, seed: Any = SEED, **more: Any) -> Storage:
    made = Storage(context(place, {}, host="s3.amazonaws.com", **more))
    made.check()
    made.seed(seed)
    made.context.store.seal()
    return made


def client(port: int, style: str = "path") -> Any:
    """As an agent has it: the real name, by a way that leads to the stand-in."""
    return boto3.client(
        "s3",
        region_name="us-east-1",
        aws_access_key_id="any",
        aws_secret_access_key="thing",
        use_ssl=False,
        config=Config(
            s3={"addressing_style": style},
            proxies={"http": f"http://127.0.0.1:{port}"},
            retries={"total_max_attempts": 1},
        ),
    )


def use(service: Storage, *works: Work, style: str = "path") -> list[Any]:
    """What each work gives; the process is ended after each, so that the next one reads back what
    the store has."""

    async def main() -> list[Any]:
        found = []
        async with door(service) as port:
            for work in works:
                s3 = client(port, style)
                found.append(await asyncio.to_thread(work, s3))
                s3.close()
                await service.reset()
        return found

    return asyncio.run(main())


def keys(s3: Any, bucket: str = "reports") -> list[str]:
    return [one["Key"] for one in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]


def text(s3: Any, key: str, bucket: str = "reports", **words: Any) -> bytes:
    found: bytes = s3.get_object(Bucket=bucket, Key=key, **words)["Body"].read()
    return found


def test_the_name_in_a_file_leads_to_it() -> None:
    assert load_service("storage") is Storage


def test_seeds_are_there_from_the_beginning(tmp_path: Path) -> None:
    def work(s3: Any) -> None:
        assert sorted(one["Name"] for one in s3.list_buckets()["Buckets"]) == ["empty", "reports"]
        assert keys(s3) == ["2026/a.txt", "b.json"]
        assert [o["Key"] for o in s3.list_objects(Bucket="reports")["Contents"]] == keys(s3)
        found = s3.head_object(Bucket="reports", Key="b.json")
        assert found["ContentType"] == "application/json"
        assert found["ETag"] == '"99914b932bd37a50b983c5e7c90ae93b"'
        assert found["LastModified"].year == 2026

    use(storage(tmp_path), work)


def test_a_file_of_the_project_is_a_seed(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "x.bin").write_bytes(b"\0\xff")
    seed = {"buckets": {"files": {"x": {"file": "x.bin"}}}}
    assert use(storage(tmp_path, seed), lambda s3: text(s3, "x", "files")) == [b"\0\xff"]


def test_what_is_put_is_read_back_after_the_process_has_ended(tmp_path: Path) -> None:
    def write(s3: Any) -> None:
        s3.put_object(
            Bucket="reports", Key="ä b+c/%41.txt", Body=b"data", ContentType="text/plain",
            Metadata={"who": "me"}, Tagging="team=red", StorageClass="STANDARD_IA",
        )  # fmt: skip

    def read(s3: Any) -> None:
        found = s3.get_object(Bucket="reports", Key="ä b+c/%41.txt")
        assert found["Body"].read() == b"data"
        assert found["ContentType"] == "text/plain"
        assert found["Metadata"]["who"] == "me"
        assert found["StorageClass"] == "STANDARD_IA"
        tags = s3.get_object_tagging(Bucket="reports", Key="ä b+c/%41.txt")["TagSet"]
        assert tags == [{"Key": "team", "Value": "red"}]
        assert "ä b+c/%41.txt" in keys(s3)

    use(storage(tmp_path), write, read)


def test_part_of_an_object_is_read_by_range(tmp_path: Path) -> None:
    def work(s3: Any) -> bytes:
        return text(s3, "2026/a.txt", Range="bytes=1-3")

    assert use(storage(tmp_path), work) == [b"ell"]


def test_copies_and_deletions_last(tmp_path: Path) -> None:
    def write(s3: Any) -> None:
        s3.copy_object(
            Bucket="empty", Key="copy", CopySource={"Bucket": "reports", "Key": "2026/a.txt"}
        )
        s3.delete_object(Bucket="reports", Key="b.json")

    def more(s3: Any) -> None:
        assert text(s3, "copy", "empty") == b"hello"
        assert keys(s3) == ["2026/a.txt"]
        gone = [{"Key": "2026/a.txt"}, {"Key": "never"}]
        s3.delete_objects(Bucket="reports", Delete={"Objects": gone})

    def last(s3: Any) -> None:
        assert keys(s3) == []
        s3.delete_bucket(Bucket="reports")

    def after(s3: Any) -> None:
        with pytest.raises(ClientError, match="NoSuchBucket"):
            keys(s3)

    use(storage(tmp_path), write, more, last, after)


def test_an_upload_in_parts_goes_on_after_the_process_has_ended(tmp_path: Path) -> None:
    ids: dict[str, Any] = {}

    def begin(s3: Any) -> None:
        made = s3.create_multipart_upload(Bucket="empty", Key="big", Metadata={"a": "b"})
        ids.update(Bucket="empty", Key="big", UploadId=made["UploadId"])
        ids["one"] = s3.upload_part(**_words(ids), PartNumber=1, Body=b"x" * (5 << 20))["ETag"]

    def end(s3: Any) -> None:
        two = s3.upload_part(**_words(ids), PartNumber=2, Body=b"y")["ETag"]
        parts = [{"PartNumber": 1, "ETag": ids["one"]}, {"PartNumber": 2, "ETag": two}]
        s3.complete_multipart_upload(**_words(ids), MultipartUpload={"Parts": parts})

    def read(s3: Any) -> None:
        found = s3.get_object(Bucket="empty", Key="big")
        assert found["Body"].read() == b"x" * (5 << 20) + b"y"
        assert found["ETag"].endswith('-2"')
        assert found["Metadata"] == {"a": "b"}
        assert "Uploads" not in s3.list_multipart_uploads(Bucket="empty")

    service = storage(tmp_path)
    use(service, begin, end, read)
    assert service.context.store.count("upload") == 0


def test_versions_and_settings_of_buckets_last(tmp_path: Path) -> None:
    def write(s3: Any) -> None:
        s3.put_bucket_versioning(Bucket="empty", VersioningConfiguration={"Status": "Enabled"})
        for data in (b"1", b"2"):
            s3.put_object(Bucket="empty", Key="k", Body=data)
        s3.delete_object(Bucket="empty", Key="k")
        s3.put_bucket_tagging(Bucket="empty", Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})

    def read(s3: Any) -> None:
        found = s3.list_object_versions(Bucket="empty")
        assert len(found["Versions"]) == 2
        assert found["DeleteMarkers"][0]["IsLatest"]
        seen = {text(s3, "k", "empty", VersionId=one["VersionId"]) for one in found["Versions"]}
        assert seen == {b"1", b"2"}
        assert s3.get_bucket_tagging(Bucket="empty")["TagSet"] == [{"Key": "a", "Value": "b"}]

    use(storage(tmp_path), write, read)


def test_a_bucket_may_be_named_in_the_host(tmp_path: Path) -> None:
    def work(s3: Any) -> bytes:
        s3.put_object(Bucket="reports", Key="dir/x", Body=b"virtual")
        return text(s3, "dir/x")

    assert use(storage(tmp_path), work, style="virtual") == [b"virtual"]


def test_a_host_of_ones_own_takes_signed_requests_in_either_style(tmp_path: Path) -> None:
    async def main() -> None:
        service = Storage(context(tmp_path, {}, host="files.example"))
        service.seed(SEED)
        try:
            caller = await service.connect()
            loop = asyncio.get_running_loop()
            with caller:
                head = b"GET /2026/a.txt HTTP/1.1\r\nhost: reports.files.example\r\n"
                await loop.sock_sendall(
                    caller, head + b"authorization: x\r\nconnection: close\r\n\r\n"
                )
                answer = b""
                while part := await loop.sock_recv(caller, 65536):
                    answer += part
            assert body(answer) == b"hello"
            signed = await ask(service, "/reports/2026/a.txt", "authorization: x")
            assert body(signed) == b"hello"
            nobody = await ask(service, "/reports/2026/a.txt")
            assert nobody.startswith(b"HTTP/1.1 403")
        finally:
            await service.close()

    asyncio.run(main())


def test_a_presigned_address_works_without_a_client(tmp_path: Path) -> None:
    async def main() -> None:
        service = storage(tmp_path)
        async with door(service) as port:
            s3 = client(port)
            words = {"Bucket": "reports", "Key": "2026/a.txt"}
            url = s3.generate_presigned_url("get_object", Params=words)
            here = url.replace("s3.amazonaws.com", f"127.0.0.1:{port}")

            def read() -> bytes:
                with urllib.request.urlopen(here, timeout=10) as answer:
                    found: bytes = answer.read()
                    return found

            assert await asyncio.to_thread(read) == b"hello"
            s3.close()
        await service.close()

    asyncio.run(main())


def test_errors_are_those_of_s3_and_change_nothing(tmp_path: Path) -> None:
    service = storage(tmp_path)
    before = service.context.store.digest()

    def work(s3: Any) -> None:
        with pytest.raises(ClientError, match="NoSuchKey"):
            text(s3, "missing")
        with pytest.raises(ClientError, match="BucketNotEmpty"):
            s3.delete_bucket(Bucket="reports")
        with pytest.raises(ClientError, match="NoSuchBucket"):
            s3.put_object(Bucket="never-made", Key="k", Body=b"")

    use(service, work)
    assert service.context.store.digest() == before


def test_an_object_that_is_too_large_is_refused(tmp_path: Path) -> None:
    def work(s3: Any) -> None:
        with pytest.raises(ClientError, match="EntityTooLarge"):
            s3.put_object(Bucket="reports", Key="k", Body=b"x" * ((64 << 20) + 1))

    use(storage(tmp_path), work)


def _much(s3: Any) -> None:
    s3.create_bucket(Bucket="made")
    s3.put_bucket_versioning(Bucket="made", VersioningConfiguration={"Status": "Enabled"})
    for data in (b"1", b"2"):
        s3.put_object(Bucket="made", Key="k", Body=data, Metadata={"n": "1"})
    made = s3.create_multipart_upload(Bucket="made", Key="left")
    s3.upload_part(Bucket="made", Key="left", UploadId=made["UploadId"], PartNumber=1, Body=b"p")
    s3.delete_object(Bucket="reports", Key="b.json")


def test_the_same_requests_give_the_same_state_however_often_it_is_started(tmp_path: Path) -> None:
    digests = set()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        service = storage(tmp_path / name)
        use(service, _much, keys)
        digests.add(service.context.store.digest())
    assert len(digests) == 1


def test_reset_is_exact(tmp_path: Path) -> None:
    service = storage(tmp_path)
    before = service.context.store.digest()
    use(service, _much)
    assert service.context.store.digest() != before
    service.context.store.reset()
    assert service.context.store.digest() == before
    assert use(service, keys) == [["2026/a.txt", "b.json"]]


def test_a_rewind_shows_without_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        service = storage(tmp_path)
        async with door(service) as port:
            s3 = client(port)
            put = {"Bucket": "reports", "Key": "new", "Body": b"1"}
            await asyncio.to_thread(lambda: s3.put_object(**put))
            service.context.store.reset()
            assert "new" not in await asyncio.to_thread(keys, s3)
            s3.close()
        await service.close()

    asyncio.run(main())


def test_a_fork_goes_its_own_way(tmp_path: Path) -> None:
    parent = storage(tmp_path)
    use(parent, lambda s3: s3.put_object(Bucket="reports", Key="both", Body=b"1"))
    store: Store = parent.context.store.fork(tmp_path / "child.sqlite")
    child = Storage(
        Context("service", "s3.amazonaws.com", 443, store, directory=tmp_path / "child")
    )
    use(child, lambda s3: s3.delete_object(Bucket="reports", Key="both"))
    assert use(parent, keys) == [["2026/a.txt", "b.json", "both"]]
    assert use(child, keys) == [["2026/a.txt", "b.json"]]


@pytest.mark.parametrize(
    "seed",
    [
        {"bucket": {}},
        {"buckets": []},
        {"buckets": {"UPPER": {}}},
        {"buckets": {"../x": {}}},
        {"buckets": {"ok-name": {"key": 5}}},
        {"buckets": {"ok-name": {"": "text"}}},
        {"buckets": {"ok-name": {"key": {"file": "missing"}}}},
    ],
)
def test_seeds_that_make_no_sense_are_refused(tmp_path: Path, seed: Any) -> None:
    with pytest.raises(InvalidInput):
        storage(tmp_path, seed)


def test_a_region_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="region"):
        Storage(context(tmp_path, {"region": "here"})).check()


def _words(ids: dict[str, Any]) -> dict[str, Any]:
    return {name: ids[name] for name in ("Bucket", "Key", "UploadId")}
