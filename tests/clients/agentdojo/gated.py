"""A world of AgentDojo behind the gate: its functions become Paddock's tools, and its own runtime
calls them through `Tools`, so that each call is decided and journalled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import yaml
from agentdojo.functions_runtime import (
    Function,
    FunctionsRuntime,
    TaskEnvironment,
    ToolNotFoundError,
)
from msgspec.structs import replace

from paddock import Tools, tool
from paddock.gate.gate import Gate
from paddock.model.action import Outcome

READS = ("get_", "search_", "read_", "list_", "check_")


def paddock_file(functions: Sequence[Function[..., Any]]) -> str:
    """Declares every function of a suite, with the effect that its name tells of."""
    tools = {
        one.name: {"effect": "read" if one.name.startswith(READS) else "write"} for one in functions
    }
    return yaml.safe_dump(
        {"version": 1, "agent": "agentdojo", "stage": "broad", "tools": tools, "rules": []}
    )


def tools_of(gate: Gate, functions: Sequence[Function[..., Any]], env: TaskEnvironment) -> Tools:
    """The functions as tools. What they need of the environment is fixed: the agent sees it not."""
    return Tools(gate, [_tool(one, env) for one in functions])


def _tool(one: Function[..., Any], env: TaskEnvironment) -> Any:
    needed = {name: of.extract_dep_from_env(env) for name, of in one.dependencies.items()}
    return replace(_shape(one.run, one.name, one.description, frozenset(needed)),
                   function=partial(one.run, **needed))  # fmt: skip


@cache
def _shape(run: Any, name: str, description: str, needed: frozenset[str]) -> Any:
    """The schema is the same in every environment, and takes a while to make."""
    return tool(name=name, description=description)(partial(run, **dict.fromkeys(needed)))


class GatedRuntime(FunctionsRuntime):
    """What AgentDojo's pipelines call functions with."""

    def __init__(self, gate: Gate, functions: Sequence[Function[..., Any]] = ()) -> None:
        super().__init__(functions)
        self._gate = gate
        self._tools: tuple[TaskEnvironment | None, Tools] | None = None

    @classmethod
    def behind(cls, gate: Gate) -> Callable[[Sequence[Function[..., Any]]], GatedRuntime]:
        """For `runtime_class` of a suite."""
        return partial(cls, gate)

    def run_function(
        self,
        env: Any,
        function: str,
        kwargs: Mapping[str, Any],
        raise_on_error: bool = False,
    ) -> tuple[Any, str | None]:
        """As its own does it: the value and no error, or the error; raises where that is wanted."""
        try:
            return self._run(env, function, kwargs), None
        except Exception as error:
            if raise_on_error:
                raise
            return "", f"{type(error).__name__}: {error}"

    def _run(self, env: Any, function: str, kwargs: Mapping[str, Any]) -> Any:
        if function not in self.functions:
            raise ToolNotFoundError(f"The requested function `{function}` is not available.")
        arguments = self._execute_nested_calls(env, kwargs)  # those cross the gate as well
        found = self._of(env).call(function, arguments)
        if found.outcome is Outcome.FAILED and isinstance(found.cause, Exception):
            raise found.cause
        return found.unwrap()

    def _of(self, env: Any) -> Tools:
        if self._tools is None or self._tools[0] is not env:
            self._tools = (env, tools_of(self._gate, list(self.functions.values()), env))
        return self._tools[1]
