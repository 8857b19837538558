"""One object or upload of moto as a document, and back. All that is known of moto's inner state
about them is known here."""

from __future__ import annotations

import datetime
from typing import Any

from paddock.world.store import Store
from paddock_services.storage.backend import ACCOUNT, Backend

Document = dict[str, Any]
# As moto names them, stored when they are set.
_FIELDS = ("encryption", "kms_key_id", "bucket_key_enabled", "lock_mode", "lock_legal_status",
           "lock_until", "checksum_value", "checksum_type", "checksum_parts", "checksum_algorithm",
           "website_redirect_location")  # fmt: skip


def object_document(
    backend: Backend, bucket: Any, version: Any, store: Store, blobs: dict[str, str]
) -> Document:
    """Return one version of an object. `blobs` has the bytes of versions that are stored."""
    modified = _timestamp(version.last_modified)
    document: Document = {"bucket": bucket.name, "key": version.name, "modified": modified}
    if isinstance(version, backend.models.FakeDeleteMarker):
        return {**document, "version": version.version_id, "deleted": True}
    id = None if version.version_id == "null" else version.version_id
    document |= {
        "bytes": version.contentsize,
        "blob": blobs.get(id or "") or store.put_blob(version.value),
        "etag": version.etag.strip('"'),
        "version": id,
        "metadata": _texts(version.metadata),
        "storage_class": version.storage_class,
    }
    tags = backend.state.tagger.get_tag_dict_for_resource(version.arn)
    if tags:
        document["tags"] = tags
    for name in _FIELDS:
        value = getattr(version, name, None)
        if value not in (None, ""):
            document[name] = value
    return document


def restore_object(backend: Backend, bucket: Any, document: Document, store: Store) -> Any:
    """Return the object of moto that a document describes."""
    version = backend.models.FakeKey(
        name=document["key"],
        value=b"" if document.get("deleted") else store.blob(document["blob"]) or b"",
        account_id=ACCOUNT,
        region_name=bucket.region_name,
        storage=document.get("storage_class"),
        etag=document.get("etag"),
        is_versioned=document.get("version") is not None,
        version_id=document.get("version") or "null",
        bucket_name=bucket.name,
    )
    for name in _FIELDS:
        if name in document:
            setattr(version, name, document[name])
    version.set_metadata(dict(document.get("metadata", {})), replace=False)
    version.last_modified = backend.datetime_of(document["modified"])
    if document.get("tags"):
        tagger = backend.state.tagger
        tagger.tag_resource(version.arn, tagger.convert_dict_to_tags_input(document["tags"]))
    return version


def restore_delete_marker(backend: Backend, key: Any, document: Document) -> Any:
    """Return the version of an object that says it was deleted."""
    marker = backend.models.FakeDeleteMarker(key=key)
    marker.last_modified = backend.datetime_of(document["modified"])
    marker._version_id = document["version"]
    return marker


def upload_document(bucket: Any, upload: Any, store: Store) -> Document:
    """Return an upload in parts that is not finished."""
    parts = {}
    for number, part in sorted(upload.parts.items()):
        modified = _timestamp(part.last_modified)
        blob, etag = store.put_blob(part.value), part.etag.strip('"')
        parts[str(number)] = {"blob": blob, "etag": etag, "modified": modified}
    return {
        "id": upload.id,
        "bucket": bucket.name,
        "key": upload.key_name,
        "parts": parts,
        "metadata": _texts(upload.metadata),
        "tags": upload.tags or {},
        "storage": upload.storage,
        "encryption": upload.sse_encryption,
        "kms_key_id": upload.kms_key_id,
    }


def restore_upload(backend: Backend, bucket: Any, document: Document, store: Store) -> None:
    """Give a bucket of moto the upload that a document describes."""
    models = backend.models
    upload = models.FakeMultipart(
        document["key"],
        models.CaseInsensitiveDict(document["metadata"]),
        ACCOUNT,
        bucket.region_name,
        storage=document["storage"],
        tags=document["tags"] or None,
        acl=models.get_canned_acl("private"),
        sse_encryption=document["encryption"],
        kms_key_id=document["kms_key_id"],
    )
    upload.id = document["id"]
    for number, stored in document["parts"].items():
        part = upload.set_part(int(number), store.blob(stored["blob"]) or b"")
        part.last_modified = backend.datetime_of(stored["modified"])
    bucket.multiparts[upload.id] = upload


def _texts(metadata: Any) -> dict[str, str]:
    return {str(name): str(value) for name, value in dict(metadata).items()}


def _timestamp(time: datetime.datetime) -> float:
    return time.replace(tzinfo=datetime.UTC).timestamp()
