"""Tools bound to a gate: the set that an agent is given, and the way to call one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from paddock.doors.tools.crossing import Entry, cross, entry, record_invalid
from paddock.doors.tools.definition import Tool, ToolMethod, tool
from paddock.doors.tools.errors import InvalidArguments, ToolError
from paddock.doors.tools.plain import plain, said
from paddock.doors.tools.result import ToolResult, invalid
from paddock.doors.tools.running import Ran, run, wait_for
from paddock.gate.executors import Done, Live, Preview
from paddock.gate.gate import Gate
from paddock.model.action import Action, Outcome
from paddock.model.errors import InvalidInput

_SHOWN_NAMES = 40


class Tools:
    """The tools of one agent. Iterating gives them in the order in which they were given."""

    def __init__(self, gate: Gate, tools: Iterable[Tool | Callable[..., Any]]) -> None:
        """Check the tools. Raises InvalidInput for a tool that the paddock file does not declare,
        or whose effect is looser than the file says, and for two tools of one name."""
        self.gate = gate
        self._tools: dict[str, Tool] = {}
        self._entries: dict[str, Entry] = {}
        for one in tools:
            self._add(_as_tool(one))

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    async def acall(
        self,
        name: str,
        arguments: str | Mapping[str, Any] | None = None,
        *,
        context: Mapping[str, Any] | None = None,
    ) -> ToolResult:
        """Call a tool and wait for its result. Arguments are a mapping or JSON text. A plain
        function runs on a thread, an async one on the caller's loop."""
        return await self._call(name, arguments, context, is_here=False)

    def call(
        self,
        name: str,
        arguments: str | Mapping[str, Any] | None = None,
        *,
        context: Mapping[str, Any] | None = None,
    ) -> ToolResult:
        """Do the same for plain code; a plain function runs on the caller's thread. It may be used
        on the thread of a running loop, but blocks that loop meanwhile: await `acall` there."""
        return wait_for(self._call(name, arguments, context, is_here=True))

    async def carry_out(self, action: Action) -> Done:
        """Execute any action of these tools, for `gate.cross`: to send a draft, for example."""
        return await self._live(action.name, is_here=False)(action)

    async def _call(
        self,
        name: str,
        arguments: str | Mapping[str, Any] | None,
        context: Mapping[str, Any] | None,
        *,
        is_here: bool,
    ) -> ToolResult:
        try:
            form = self._known(name).parameters.read({} if arguments is None else arguments)
        except InvalidArguments as error:
            return record_invalid(self.gate, invalid(str(name), error.message), context)
        live = self._live(name, is_here=is_here)
        preview = self._preview(name, is_here=is_here)
        return await cross(self.gate, self._entries[name], form, live, preview, context)

    def _add(self, one: Tool) -> None:
        if one.name in self._tools:
            raise InvalidInput(f"two tools are called {one.name!r}", hint="pass name= to one")
        self._entries[one.name] = entry(self.gate.policy, one.name, one.effect, one.is_reversible)
        self._tools[one.name] = one

    def _known(self, name: str) -> Tool:
        found = self._tools.get(name) if isinstance(name, str) else None
        if found is None:
            names = ", ".join(list(self._tools)[:_SHOWN_NAMES])
            raise InvalidArguments(f"There is no tool {str(name)[:80]!r}. The tools are: {names}")
        return found

    def _live(self, name: str, *, is_here: bool) -> Live:
        one = self._known(name)

        async def live(action: Action) -> Done:
            try:
                call = one.parameters.call(action.arguments)  # of what was decided, nothing else
            except InvalidArguments as error:  # a person's edit that does not fit
                return Done(outcome=Outcome.FAILED, error=error)
            return done(await run(one.function, call.args, call.kwargs, is_here=is_here))

        return live

    def _preview(self, name: str, *, is_here: bool) -> Preview | None:
        one = self._known(name)
        function = one.preview
        if function is None:
            return None

        async def preview(action: Action) -> Any:
            call = one.parameters.call(action.arguments)
            ran = await run(function, call.args, call.kwargs, is_here=is_here)
            if ran.error is not None:
                raise ToolError(said(ran.error))
            return plain(ran.value)

        return preview


def done(ran: Ran) -> Done:
    """Return a function's result, for the agent and for the journal."""
    if ran.error is None:
        return Done(value=ran.value, record=plain(ran.value))
    error = ToolError(said(ran.error))
    error.__cause__ = ran.error
    return Done(outcome=Outcome.FAILED, error=error)


def _as_tool(one: Any) -> Tool:
    if isinstance(one, Tool):
        return one
    if isinstance(one, ToolMethod):
        raise InvalidInput("a method of a class is no tool yet", hint="give that of an instance")
    return tool(one)
