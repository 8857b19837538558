"""A watcher of runs who keeps what the agent printed."""

from __future__ import annotations


class Listening:
    """What the agent printed."""

    def __init__(self) -> None:
        self.out = b""

    def began(self, run: str, setting: object) -> None: ...

    def told(self, record: object) -> None: ...

    def said(self, stream: str, data: bytes) -> None:
        self.out += data

    @property
    def lines(self) -> list[str]:
        return self.out.decode().splitlines()
