"""One run of a case, in a project that has the scenario's files in it before the agent begins."""

from __future__ import annotations

import posixpath
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from paddock.doors.machine.files import FileCore
from paddock.run.running import Ended, Stage, run

if TYPE_CHECKING:
    from paddock.doors.machine.box import Box
    from paddock.run.order import Order
    from paddock.run.scenarios.preparing import Prepared


def run_case(prepared: Prepared) -> Ended:
    """Runs it to its end."""
    return run_with_files(prepared.order, prepared.case.scenario.files)


def run_with_files(order: Order, files: Mapping[str, bytes]) -> Ended:
    """Runs an order with more files in its project than the host's has. They are in the sandbox's
    own layer, as if the agent had found them there: no step, and nothing on the host."""
    return run(order, stage=Stage(begin=putting(order, files)))


def putting(order: Order, files: Mapping[str, bytes]) -> Callable[[Box], Awaitable[None]]:
    """What puts the files into a sandbox."""

    async def put(box: Box) -> None:
        core = FileCore(box)
        for path, content in files.items():
            await core.write(posixpath.join(order.cwd, path), content)

    return put
