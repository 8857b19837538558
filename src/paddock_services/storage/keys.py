"""One object or upload of moto as a document, and back. All that is known of moto's insides about
them is known here."""

from __future__ import annotations

import datetime
from typing import Any
from urllib.parse import quote

from paddock.world.store import Store
from paddock_services.storage.backend import ACCOUNT, Backend

# As moto names them, kept when they are set.
_FIELDS = ("encryption", "kms_key_id", "bucket_key_enabled", "lock_mode", "lock_legal_status",
           "lock_until", "checksum_value", "checksum_type", "checksum_parts", "checksum_algorithm",
           "website_redirect_location")  # fmt: skip


def document(
    backend: Backend, bucket: Any, one: Any, store: Store, known: dict[str, str]
) -> dict[str, Any]:
    """A version of an object. `known` has the bytes of versions that were written before."""
    base = {"bucket": bucket.name, "key": one.name, "modified": _stamp(one.last_modified)}
    if isinstance(one, backend.models.FakeDeleteMarker):
        return {**base, "version": one.version_id, "deleted": True}
    version = one.version_id if one.version_id != "null" else None
    blob = known.get(version or "") or store.put_blob(one.value)
    found = {
        **base, "bytes": one.contentsize, "blob": blob, "etag": one.etag.strip('"'),
        "version": version, "metadata": {str(k): str(v) for k, v in one.metadata.items()},
        "storage_class": one.storage_class,
    }  # fmt: skip
    tags = backend.state.tagger.get_tag_dict_for_resource(one.arn)
    if tags:
        found["tags"] = tags
    more = {name: getattr(one, name, None) for name in _FIELDS}
    return {**found, **{name: value for name, value in more.items() if value not in (None, "")}}


def restore(backend: Backend, bucket: Any, found: dict[str, Any], store: Store) -> Any:
    """The object of moto that a document describes."""
    made = backend.models.FakeKey(
        name=found["key"],
        value=b"" if found.get("deleted") else store.blob(found["blob"]) or b"",
        account_id=ACCOUNT,
        region_name=bucket.region_name,
        storage=found.get("storage_class"),
        etag=found.get("etag"),
        is_versioned=found.get("version") is not None,
        version_id=found.get("version") or "null",
        bucket_name=bucket.name,
    )
    for name in _FIELDS:
        if name in found:
            setattr(made, name, found[name])
    made.set_metadata(dict(found.get("metadata", {})), replace=False)
    made.last_modified = backend.time_of(found["modified"])
    return made


def marker(backend: Backend, key: Any, found: dict[str, Any]) -> Any:
    """That an object is deleted, as a version of it."""
    made = backend.models.FakeDeleteMarker(key=key)
    made.last_modified = backend.time_of(found["modified"])
    made._version_id = found["version"]
    return made


def upload_document(backend: Backend, bucket: Any, upload: Any, store: Store) -> dict[str, Any]:
    parts = {
        str(number): {
            "blob": store.put_blob(part.value),
            "etag": part.etag.strip('"'),
            "modified": _stamp(part.last_modified),
        }
        for number, part in sorted(upload.parts.items())
    }
    return {
        "id": upload.id, "bucket": bucket.name, "key": upload.key_name, "parts": parts,
        "metadata": {str(k): str(v) for k, v in dict(upload.metadata).items()},
        "tags": upload.tags or {}, "storage": upload.storage, "encryption": upload.sse_encryption,
        "kms_key_id": upload.kms_key_id,
    }  # fmt: skip


def restore_upload(backend: Backend, found: dict[str, Any], store: Store) -> None:
    bucket = backend.state.buckets.get(found["bucket"])
    if bucket is None:
        return
    models = backend.models
    upload = models.FakeMultipart(
        found["key"], models.CaseInsensitiveDict(found["metadata"]), ACCOUNT, bucket.region_name,
        storage=found["storage"], tags=found["tags"] or None,
        acl=models.get_canned_acl("private"), sse_encryption=found["encryption"],
        kms_key_id=found["kms_key_id"],
    )  # fmt: skip
    upload.id = found["id"]
    for number, part in found["parts"].items():
        made = upload.set_part(int(number), store.blob(part["blob"]) or b"")
        made.last_modified = backend.time_of(part["modified"])
    bucket.multiparts[upload.id] = upload


def quoted(key: str) -> str:
    return quote(key, safe="/~")


def _stamp(at: Any) -> float:
    return float(at.replace(tzinfo=datetime.UTC).timestamp())
