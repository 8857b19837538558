"""Buckets, objects and unfinished uploads as documents: written after each change, and moto rebuilt
from them.

An object or a bucket may also have settings (an ACL, a lifecycle, a policy). Those are not taken
out of moto: the request that made a setting is stored, and made again when moto is rebuilt.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from paddock.world.context import Context
from paddock_services.storage.backend import Backend, S3Request
from paddock_services.storage.objects import (
    Document,
    object_document,
    restore_delete_marker,
    restore_object,
    restore_upload,
    upload_document,
)

_NO_SETTING = frozenset({"delete", "uploads", "uploadId", "partNumber", "versionId", "tagging",
                         "restore", "select", "select-type", "list-type"})  # fmt: skip


class Persistence:
    """Brings moto's state to the store and back."""

    def __init__(self, context: Context, backend: Backend) -> None:
        self._store = context.store
        self._backend = backend
        self._signatures: dict[str, tuple[str, ...]] = {}  # the versions of each object, by id

    def restore(self) -> None:
        """Rebuild moto from the store."""
        self._backend.reset()
        self._signatures.clear()
        for document in self._store.find("bucket"):
            self._restore_bucket(document)
        buckets = self._backend.state.buckets
        for document in self._store.find("object"):
            if document["bucket"] in buckets:
                self._restore_object(buckets[document["bucket"]], document)
        for document in self._store.find("upload"):
            if document["bucket"] in buckets:
                bucket = buckets[document["bucket"]]
                restore_upload(self._backend, bucket, document, self._store)

    def write(self, request: S3Request, time: float) -> None:
        """Write what a request has changed."""
        if not request.bucket:
            return
        bucket = self._backend.state.buckets.get(request.bucket)
        if bucket is None:
            self._delete_bucket(request.bucket)
            return
        self._write_bucket(bucket, request, time)
        if request.key:
            self._write_object(bucket, request.key, self._object_settings(request))
        elif "delete" in request.params or request.method == "POST":
            self._write_changed_objects(bucket)
        if "uploads" in request.params or "uploadId" in request.params:
            self._write_uploads(bucket)

    def _write_bucket(self, bucket: Any, request: S3Request, time: float) -> None:
        document = self._store.get("bucket", bucket.name)
        if document is None:
            bucket.creation_date = self._backend.datetime_of(time)
            document = {"name": bucket.name, "created": time, "region": bucket.region_name}
            if any(name == "x-amz-bucket-object-lock-enabled" for name, _ in request.headers):
                document["has_object_lock"] = True
            self._store.put("bucket", bucket.name, document)
        if not request.key and request.params and "delete" not in request.params:
            ignored = _NO_SETTING - {"tagging"}
            settings = _with_setting(document.get("settings", {}), request, ignored)
            self._store.put("bucket", bucket.name, {**document, "settings": settings})

    def _object_settings(self, request: S3Request) -> Document:
        """Return the settings of an object after a request. New content has none but its ACL."""
        document = self._store.get("object", f"{request.bucket}/{request.key}") or {}
        is_content = request.method in ("PUT", "POST") and not set(request.params) - {"uploadId"}
        if not is_content:
            return _with_setting(document.get("settings", {}), request, _NO_SETTING)
        for name, value in request.headers:
            if name == "x-amz-acl":
                return {"acl": {"query": "acl", "headers": {name: value}, "body": ""}}
        return {}

    def _write_object(self, bucket: Any, key: str, settings: Document) -> None:
        id = f"{bucket.name}/{key}"
        versions = bucket.keys.getlist(key, [])
        self._signatures[id] = _signature(versions)
        if not versions:
            self._store.delete("object", id)
            return
        stored = self._store.get("object", id) or {}
        blobs = {
            version["version"]: version["blob"]
            for version in (stored, *stored.get("earlier", []))
            if version.get("version") and "blob" in version
        }
        *earlier, document = [
            object_document(self._backend, bucket, version, self._store, blobs)
            for version in versions
        ]
        if settings:
            document["settings"] = settings
        if earlier:
            document["earlier"] = earlier
        self._store.put("object", id, document)

    def _write_changed_objects(self, bucket: Any) -> None:
        """Write the objects that a request named in its body."""
        for key in list(bucket.keys):
            id = f"{bucket.name}/{key}"
            if self._signatures.get(id) != _signature(bucket.keys.getlist(key, [])):
                stored = self._store.get("object", id) or {}
                self._write_object(bucket, key, stored.get("settings", {}))
        for document in self._store.find("object", {"bucket": bucket.name}):
            if document["key"] not in bucket.keys:
                self._write_object(bucket, document["key"], {})

    def _write_uploads(self, bucket: Any) -> None:
        for upload in bucket.multiparts.values():
            document = upload_document(bucket, upload, self._store)
            if document != self._store.get("upload", upload.id):
                self._store.put("upload", upload.id, document)
        for document in self._store.find("upload", {"bucket": bucket.name}):
            if document["id"] not in bucket.multiparts:
                self._store.delete("upload", document["id"])

    def _delete_bucket(self, name: str) -> None:
        self._store.delete("bucket", name)
        for document in self._store.find("object", {"bucket": name}):
            self._store.delete("object", f"{name}/{document['key']}")
        for document in self._store.find("upload", {"bucket": name}):
            self._store.delete("upload", document["id"])

    def _restore_bucket(self, document: Document) -> None:
        bucket = self._backend.state.create_bucket(document["name"], document["region"])
        bucket.creation_date = self._backend.datetime_of(document["created"])
        if document.get("has_object_lock"):
            bucket.object_lock_enabled = True
            bucket.versioning_status = "Enabled"
        self._repeat(f"/{document['name']}", document.get("settings", {}))

    def _restore_object(self, bucket: Any, document: Document) -> None:
        key = document["key"]
        versions: list[Any] = []
        for stored in (*document.get("earlier", []), document):
            version = restore_object(self._backend, bucket, stored, self._store)
            if stored.get("deleted"):
                marked = versions[-1] if versions else version
                version = restore_delete_marker(self._backend, marked, stored)
            versions.append(version)
        bucket.keys.setlist(key, versions)
        self._signatures[f"{bucket.name}/{key}"] = _signature(versions)
        self._repeat(f"/{bucket.name}/{quote(key, safe='/~')}", document.get("settings", {}))

    def _repeat(self, path: str, settings: Document) -> None:
        """Make the requests again that made these settings."""
        for setting in settings.values():
            body = setting["body"].encode("latin-1")
            headers = [*setting["headers"].items(), ("content-length", str(len(body)))]
            self._backend.answer(S3Request("PUT", path, setting["query"], headers, body))


def _signature(versions: list[Any]) -> tuple[str, ...]:
    return tuple(f"{version.version_id}@{version.last_modified}" for version in versions)


def _with_setting(settings: Document, request: S3Request, ignored: frozenset[str]) -> Document:
    """Return the settings after a request about one of them."""
    params = {name: value for name, value in request.params.items() if name not in ignored}
    if not params:
        return settings
    query = "&".join(sorted(f"{name}={quote(value)}" for name, value in params.items()))
    query = query.removesuffix("=")
    rest = {key: value for key, value in settings.items() if key != query}
    if request.method != "PUT":
        return rest
    headers = {
        name: value
        for name, value in request.headers
        if name.startswith("x-amz-acl") or name == "content-type"
    }
    setting = {"query": query, "headers": headers, "body": request.body.decode("latin-1")}
    return {**rest, query: setting}
