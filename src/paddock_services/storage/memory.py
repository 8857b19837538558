"""Buckets, objects and unfinished uploads as documents: written after each change, and moto rebuilt
from them."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from paddock.world.context import Context
from paddock_services.storage import keys
from paddock_services.storage.backend import Backend, Call

_NO_SETTING = frozenset({"delete", "uploads", "uploadId", "partNumber", "versionId", "tagging",
                         "restore", "select", "select-type", "list-type"})  # fmt: skip


class Memory:
    """Between moto's objects and the store."""

    def __init__(self, context: Context, backend: Backend) -> None:
        self._context = context
        self._store = context.store
        self._backend = backend
        self._seen: dict[str, tuple[str, ...]] = {}  # versions by document

    def restore(self) -> None:
        """moto forgets all, and is told again."""
        self._backend.reset()
        self._seen.clear()
        for bucket in self._store.find("bucket"):
            self._restore_bucket(bucket)
        for found in self._store.find("object"):
            self._restore_object(found)
        for upload in self._store.find("upload"):
            keys.restore_upload(self._backend, upload, self._store)

    def keep(self, call: Call, at: float) -> None:
        """Writes what a request has changed."""
        if not call.bucket:
            return
        bucket = self._backend.state.buckets.get(call.bucket)
        if bucket is None:
            self._forget_bucket(call.bucket)
            return
        self._keep_bucket(bucket, call, at)
        if call.key:
            self._keep_key(bucket, call.key, self._kept_settings(call))
        elif "delete" in call.words or call.method == "POST":
            self._keep_other_keys(bucket)
        if "uploads" in call.words or "uploadId" in call.words:
            self._keep_uploads(bucket)

    def _keep_bucket(self, bucket: Any, call: Call, at: float) -> None:
        old = self._store.get("bucket", bucket.name)
        if old is None:
            bucket.creation_date = self._backend.time_of(at)
            old = {"name": bucket.name, "created": at, "region": bucket.region_name}
            if any(name == "x-amz-bucket-object-lock-enabled" for name, _ in call.headers):
                old["has_object_lock"] = True
            self._store.put("bucket", bucket.name, old)
        if not call.key and call.words and "delete" not in call.words:
            settings = _with_setting(old.get("settings", {}), call, also_tags=True)
            self._store.put("bucket", bucket.name, {**old, "settings": settings})

    def _kept_settings(self, call: Call) -> dict[str, Any]:
        old = self._store.get("object", f"{call.bucket}/{call.key}") or {}
        is_content = call.method in ("PUT", "POST") and not set(call.words) - {"uploadId"}
        if not is_content:
            return _with_setting(old.get("settings", {}), call)
        acl = [value for name, value in call.headers if name == "x-amz-acl"]
        return (
            {"acl": {"query": "acl", "headers": {"x-amz-acl": acl[0]}, "body": ""}} if acl else {}
        )

    def _keep_key(self, bucket: Any, key: str, settings: dict[str, Any]) -> None:
        id = f"{bucket.name}/{key}"
        versions = bucket.keys.getlist(key, [])
        self._seen[id] = _signature(versions)
        if not versions:
            self._store.delete("object", id)
            return
        known = self._known_blobs(id)
        kept = [keys.document(self._backend, bucket, one, self._store, known) for one in versions]
        document = {**kept[-1], **({"settings": settings} if settings else {})}
        if len(kept) > 1:
            document["earlier"] = kept[:-1]
        self._store.put("object", id, document)

    def _known_blobs(self, id: str) -> dict[str, str]:
        old = self._store.get("object", id) or {}
        found = [old, *old.get("earlier", [])]
        return {
            one["version"]: one["blob"] for one in found if one.get("version") and "blob" in one
        }

    def _keep_other_keys(self, bucket: Any) -> None:
        """Of a request that names keys in its body."""
        for key in list(bucket.keys):
            id = f"{bucket.name}/{key}"
            if self._seen.get(id) != _signature(bucket.keys.getlist(key, [])):
                self._keep_key(
                    bucket, key, (self._store.get("object", id) or {}).get("settings", {})
                )
        for found in self._store.find("object", {"bucket": bucket.name}):
            if found["key"] not in bucket.keys:
                self._keep_key(bucket, found["key"], {})

    def _keep_uploads(self, bucket: Any) -> None:
        for upload in bucket.multiparts.values():
            old = self._store.get("upload", upload.id) or {}
            new = keys.upload_document(self._backend, bucket, upload, self._store)
            if new != old:
                self._store.put("upload", upload.id, new)
        for found in self._store.find("upload", {"bucket": bucket.name}):
            if found["id"] not in bucket.multiparts:
                self._store.delete("upload", found["id"])

    def _forget_bucket(self, name: str) -> None:
        self._store.delete("bucket", name)
        for kind in ("object", "upload"):
            for found in self._store.find(kind, {"bucket": name}):
                id = found["id"] if kind == "upload" else f"{name}/{found['key']}"
                self._store.delete(kind, id)

    def _restore_bucket(self, found: dict[str, Any]) -> None:
        bucket = self._backend.state.create_bucket(found["name"], found["region"])
        bucket.creation_date = self._backend.time_of(found["created"])
        if found.get("has_object_lock"):
            bucket.object_lock_enabled = True
            bucket.versioning_status = "Enabled"
        self._replay(f"/{found['name']}", found.get("settings", {}))

    def _restore_object(self, found: dict[str, Any]) -> None:
        bucket = self._backend.state.buckets.get(found["bucket"])
        if bucket is None:
            return
        versions = [*found.get("earlier", []), found]
        made = [keys.restore(self._backend, bucket, one, self._store) for one in versions]
        for number, (one, document) in enumerate(zip(made, versions, strict=True)):
            if document.get("deleted"):
                made[number] = keys.marker(self._backend, made[max(0, number - 1)], document)
            elif document.get("tags"):
                tags = self._backend.state.tagger.convert_dict_to_tags_input(document["tags"])
                self._backend.state.tagger.tag_resource(one.arn, tags)
        bucket.keys.setlist(found["key"], made)
        self._seen[f"{found['bucket']}/{found['key']}"] = _signature(made)
        self._replay(f"/{found['bucket']}/{keys.quoted(found['key'])}", found.get("settings", {}))

    def _replay(self, path: str, settings: dict[str, Any]) -> None:
        for one in settings.values():
            body = one["body"].encode("latin-1")
            headers = [*one["headers"].items(), ("content-length", str(len(body)))]
            self._backend.answer(Call("PUT", path, one["query"], headers, body))


def _signature(versions: list[Any]) -> tuple[str, ...]:
    return tuple(f"{one.version_id}@{one.last_modified}" for one in versions)


def _with_setting(old: dict[str, Any], call: Call, *, also_tags: bool = False) -> dict[str, Any]:
    """The settings after a request about one, as it would be made again."""
    names = [n for n in call.words if n not in _NO_SETTING or (also_tags and n == "tagging")]
    if not names:
        return old
    name = "&".join(sorted(f"{n}={quote(call.words[n])}" for n in names)).removesuffix("=")
    rest = {key: value for key, value in old.items() if key != name}
    if call.method != "PUT":
        return rest
    headers = {n: v for n, v in call.headers if n.startswith("x-amz-acl") or n == "content-type"}
    body = call.body.decode("latin-1")
    return {**rest, name: {"query": name, "headers": headers, "body": body}}
