"""The storage as the host sees it: a pen in which moto answers, and a store with the truth."""

from __future__ import annotations

import hashlib
import json
import mimetypes
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, cast

from paddock.model.errors import InvalidInput
from paddock.model.version import install_command
from paddock.world.bounded_file import read_bounded
from paddock.world.context import Context
from paddock.world.pen.options import PEN_OPTIONS
from paddock.world.service import Seed
from paddock.world.services.app.service import App

MAX_OBJECT = 64 << 20
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_MAX_KEY = 1024
_READY_S = 30.0  # it loads a large library


class Storage(App):
    """`{service: storage, seed: {buckets: {reports: {"2026/a.txt": "text"}}}}`"""

    name = "storage"
    is_rewindable = True
    options: ClassVar = {
        "region": "the region of buckets that are seeded; us-east-1",
        "memory": PEN_OPTIONS["memory"],
        "ready_s": PEN_OPTIONS["ready_s"],
    }

    def __init__(self, context: Context) -> None:
        options = {"ready_s": _READY_S, **context.options}
        super().__init__(replace(context, options=options))

    @property
    def target(self) -> str:
        return "paddock_services.storage.application:build"

    @property
    def project(self) -> Path | None:
        return None  # it has no use for the user's files

    @property
    def packages(self) -> tuple[Path, ...]:
        return (Path(__file__).resolve().parents[1],)

    def check(self) -> None:
        region = self.context.options.get("region", "us-east-1")
        if not isinstance(region, str) or not re.fullmatch(r"[a-z]{2}(-[a-z]+)+-\d", region):
            raise InvalidInput(f"region: {region!r} is no region, as eu-central-1")
        try:
            import moto  # type: ignore[import-not-found,import-untyped,unused-ignore] # noqa: F401
        except ImportError:
            hint = install_command("world")
            raise InvalidInput("storage needs moto, which is not installed", hint=hint) from None
        self.program()

    def read_seed(self, words: Any) -> Seed:
        """Return the buckets, which may be in a file of JSON. They are no lists of documents."""
        if isinstance(words, Mapping):
            return cast("Seed", words)
        try:
            buckets = json.loads(read_bounded(self.context.path(str(words)), MAX_OBJECT))
        except ValueError as error:
            raise InvalidInput(f"{words} is no JSON: {error}") from None
        if not isinstance(buckets, Mapping):
            raise InvalidInput(f"{words}: expected {{buckets: {{name: {{key: text}}}}}}")
        return cast("Seed", buckets)

    def seed(self, data: Seed) -> None:
        """Write `{buckets: {name: {key: text | {file: path}}}}` to the store."""
        store = self.context.store
        region = str(self.context.options.get("region", "us-east-1"))
        with store.transaction():
            for bucket, objects in _buckets(data):
                created = self.context.tick()
                store.put("bucket", bucket, {"name": bucket, "created": created, "region": region})
                for key, content in objects.items():
                    self._seed_object(bucket, str(key), self._content(bucket, key, content))

    def invariants(self) -> list[str]:
        """Return the objects that lack their bucket or their bytes."""
        store = self.context.store
        broken = []
        for document in store.find("object"):
            bucket, key = document["bucket"], document["key"]
            if not store.has("bucket", bucket):
                broken.append(f"{key} lies in {bucket}, which is not there")
            if document.get("blob") and store.blob(document["blob"]) is None:
                broken.append(f"the bytes of {bucket}/{key} are lost")
        return broken

    def _seed_object(self, bucket: str, key: str, data: bytes) -> None:
        content_type = mimetypes.guess_type(key)[0] or "binary/octet-stream"
        store = self.context.store
        document = {
            "bucket": bucket, "key": key, "bytes": len(data), "blob": store.put_blob(data),
            "etag": hashlib.md5(data, usedforsecurity=False).hexdigest(), "version": None,
            "modified": self.context.tick(), "metadata": {"content-type": content_type},
            "storage_class": "STANDARD",
        }  # fmt: skip
        store.put("object", f"{bucket}/{key}", document)

    def _content(self, bucket: str, key: Any, content: Any) -> bytes:
        if not 0 < len(str(key).encode()) <= _MAX_KEY:
            raise InvalidInput(f"seed: {bucket}: a key has 1 to {_MAX_KEY} bytes")
        if isinstance(content, str):
            return content.encode()
        if isinstance(content, Mapping) and set(content) == {"file"}:
            return read_bounded(self.context.path(str(content["file"])), MAX_OBJECT)
        raise InvalidInput(f"seed: {bucket}/{key}: expected text or {{file: path}}")


def _buckets(data: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if not data:
        return
    buckets = data.get("buckets")
    if set(data) != {"buckets"} or not isinstance(buckets, Mapping):
        raise InvalidInput("seed: expected {buckets: {name: {key: text}}}")
    for name, objects in buckets.items():
        if not isinstance(name, str) or not _BUCKET.fullmatch(name):
            raise InvalidInput(f"seed: {name!r} cannot be a bucket's name")
        if not isinstance(objects or {}, Mapping):
            raise InvalidInput(f"seed: {name}: expected keys with their content")
        yield name, objects or {}
