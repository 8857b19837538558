"""files.*: an upload in three steps (ask for an address, send the bytes there, complete)."""

from __future__ import annotations

from typing import Any

from paddock_services.chat.call import Call, ChatError, page
from paddock_services.chat.workspace import Document, Workspace

MAX_FILE = 32 << 20
_MAX_NAME = 255
_MAX_FILES = 10  # in one call
FILES, UPLOADS = "files", "uploads"


def get_upload_url(workspace: Workspace, call: Call) -> Document:
    name, length = call.need("filename"), call.number("length", 0, 1 << 50)
    if not length:
        raise ChatError("invalid_arguments")
    if length > MAX_FILE:
        raise ChatError("file_upload_size_restricted")
    file = workspace.new_id("F")
    token = workspace.context.new_id("upload", 48).removeprefix("upload")
    workspace.context.tick()
    promised = {"file": file, "name": name[:_MAX_NAME], "length": length, "blob": None,
                "alt_txt": call.text("alt_txt")[:1000]}  # fmt: skip
    workspace.store.put(UPLOADS, token, {"token": token, **promised})
    return {"upload_url": f"{call.base}/upload/v1/{token}", "file_id": file}


def receive(workspace: Workspace, token: str, data: bytes) -> bool:
    """Takes the bytes of an upload. False: nobody asked for it, or they are not as many."""
    upload = workspace.store.get(UPLOADS, token)
    if upload is None or upload["length"] != len(data):
        return False
    workspace.context.tick()
    upload["blob"] = workspace.store.put_blob(data)
    workspace.store.put(UPLOADS, token, upload)
    return True


def complete_upload(workspace: Workspace, call: Call) -> Document:
    wanted = call.structure("files", "invalid_arguments")
    if not isinstance(wanted, list) or not 0 < len(wanted) <= _MAX_FILES:
        raise ChatError("invalid_arguments")
    channels = call.names("channel_id") or call.names("channels")
    joined = [workspace.joined(id)["id"] for id in channels]
    files = [_complete(workspace, one, joined) for one in wanted]
    for channel in joined:
        _share(workspace, call, channel, files)
    return {"files": [_shown(workspace, file) for file in files]}


def info(workspace: Workspace, call: Call) -> Document:
    return {"file": _shown(workspace, _file(workspace, call)), "comments": [],
            "response_metadata": {"next_cursor": ""}}  # fmt: skip


def list_files(workspace: Workspace, call: Call) -> Document:
    channel = call.text("channel")
    found = workspace.store.find(FILES, newest_first=True)
    found = [file for file in found if not channel or channel in file["channels"]]
    shown, more = page(found, call, "file")
    paging = {"count": len(shown), "total": len(found), "page": 1, "pages": 1}
    return {"files": [_shown(workspace, file) for file in shown], "paging": paging, **more}


def delete(workspace: Workspace, call: Call) -> Document:
    file = _file(workspace, call)
    workspace.context.tick()
    workspace.store.delete(FILES, file["id"])
    return {}


METHODS = {
    "files.getUploadURLExternal": get_upload_url,
    "files.completeUploadExternal": complete_upload,
    "files.info": info,
    "files.list": list_files,
    "files.delete": delete,
}


def content(workspace: Workspace, id: str) -> bytes | None:
    """The bytes of a file."""
    file = workspace.store.get(FILES, id)
    return None if file is None else workspace.store.blob(file["blob"])


def _complete(workspace: Workspace, wanted: Any, channels: list[str]) -> Document:
    if not isinstance(wanted, dict) or not isinstance(wanted.get("id"), str):
        raise ChatError("invalid_arguments")
    found = workspace.store.find(UPLOADS, {"file": wanted["id"]}, limit=1)
    if not found or found[0]["blob"] is None:
        raise ChatError("file_not_found")
    upload, title = found[0], wanted.get("title")
    name = upload["name"]
    kind = name.rpartition(".")[2].lower() if "." in name else "text"
    file = {
        "id": wanted["id"], "created": int(workspace.context.tick()), "name": name,
        "title": title[:_MAX_NAME] if isinstance(title, str) else name, "filetype": kind,
        "user": workspace.me, "size": upload["length"], "mode": "hosted", "is_public": True,
        "channels": channels, "blob": upload["blob"], "alt_txt": upload["alt_txt"],
    }  # fmt: skip
    workspace.store.delete(UPLOADS, upload["token"])
    workspace.store.put(FILES, file["id"], file)
    return file


def _share(workspace: Workspace, call: Call, channel: str, files: list[Document]) -> None:
    more: dict[str, Any] = {"files": [_shown(workspace, file) for file in files], "upload": True}
    thread = call.text("thread_ts")
    if thread:
        workspace.message(channel, thread)
        more["thread_ts"] = thread
    workspace.say(channel, workspace.me, call.text("initial_comment")[:40_000], **more)


def _file(workspace: Workspace, call: Call) -> Document:
    found = workspace.store.get(FILES, call.need("file"))
    if found is None:
        raise ChatError("file_not_found")
    return found


def _shown(workspace: Workspace, file: Document) -> Document:
    shown = {name: value for name, value in file.items() if name != "blob"}
    host = workspace.context.host
    link = f"https://{host}/files-pri/{workspace.team['id']}-{file['id']}"
    return {**shown, "url_private": link, "url_private_download": f"{link}/download"}
