"""files.*: an upload in three steps: ask for an address, send the bytes there, complete."""

from __future__ import annotations

from typing import Any

from paddock_services.chat.arguments import Arguments, Document, SlackError
from paddock_services.chat.messages import MAX_TEXT
from paddock_services.chat.workspace import Workspace

MAX_FILE = 32 << 20
FILES, UPLOADS = "files", "uploads"
_MAX_NAME = 255
_MAX_FILES = 10  # in one call


def get_upload_url(workspace: Workspace, args: Arguments) -> Document:
    name, length = args.required("filename"), args.text("length")
    if not length.isdecimal() or not length.isascii() or not length.strip("0"):
        raise SlackError("invalid_arguments")
    if len(length) > len(str(MAX_FILE)) or int(length) > MAX_FILE:
        raise SlackError("file_upload_size_restricted")
    file = workspace.new_id("F")
    token = workspace.context.new_id("upload", 48).removeprefix("upload")
    workspace.context.tick()
    upload = {"token": token, "file": file, "name": name[:_MAX_NAME], "length": int(length),
              "blob": None, "alt_txt": args.text("alt_txt")[:1000]}  # fmt: skip
    workspace.store.put(UPLOADS, token, upload)
    return {"upload_url": f"{args.origin}/upload/v1/{token}", "file_id": file}


def receive_upload(workspace: Workspace, token: str, data: bytes) -> bool:
    """Take the bytes of an upload. False: nobody asked for it, or they are not as many."""
    upload = workspace.store.get(UPLOADS, token)
    if upload is None or upload["length"] != len(data):
        return False
    workspace.context.tick()
    upload["blob"] = workspace.store.put_blob(data)
    workspace.store.put(UPLOADS, token, upload)
    return True


def complete_upload(workspace: Workspace, args: Arguments) -> Document:
    """Make uploads into files, and post them to the channels that the call names."""
    requested = args.json("files", "invalid_arguments")
    if not isinstance(requested, list) or not 0 < len(requested) <= _MAX_FILES:
        raise SlackError("invalid_arguments")
    ids = args.names("channel_id") or args.names("channels")
    channels = [workspace.writable_channel(id)["id"] for id in ids]
    files = [_complete(workspace, request, channels) for request in requested]
    shown = [_show(workspace, file) for file in files]
    thread, text = args.text("thread_ts"), args.text("initial_comment")[:MAX_TEXT]
    for channel in channels:
        fields: dict[str, Any] = {"files": shown, "upload": True}
        if thread:
            workspace.message(channel, thread)
            fields["thread_ts"] = thread
        workspace.post(channel, workspace.bot, text, **fields)
    return {"files": shown}


METHODS = {
    "files.getUploadURLExternal": get_upload_url,
    "files.completeUploadExternal": complete_upload,
}


def file_bytes(workspace: Workspace, id: str) -> bytes | None:
    file = workspace.store.get(FILES, id)
    return None if file is None else workspace.store.blob(file["blob"])


def _complete(workspace: Workspace, request: Any, channels: list[str]) -> Document:
    if not isinstance(request, dict) or not isinstance(request.get("id"), str):
        raise SlackError("invalid_arguments")
    uploads = workspace.store.find(UPLOADS, {"file": request["id"]}, limit=1)
    if not uploads or uploads[0]["blob"] is None:
        raise SlackError("file_not_found")
    upload, title = uploads[0], request.get("title")
    name = upload["name"]
    file = {
        "id": request["id"], "created": int(workspace.context.tick()), "name": name,
        "title": title[:_MAX_NAME] if isinstance(title, str) else name,
        "filetype": name.rpartition(".")[2].lower() if "." in name else "text",
        "user": workspace.bot, "size": upload["length"], "mode": "hosted", "is_public": True,
        "channels": channels, "blob": upload["blob"], "alt_txt": upload["alt_txt"],
    }  # fmt: skip
    workspace.store.delete(UPLOADS, upload["token"])
    workspace.store.put(FILES, file["id"], file)
    return file


def _show(workspace: Workspace, file: Document) -> Document:
    shown = {name: value for name, value in file.items() if name != "blob"}
    name = f"{workspace.team['id']}-{file['id']}"
    link = f"https://{workspace.context.host}/files-pri/{name}"
    return {**shown, "url_private": link, "url_private_download": f"{link}/download"}
