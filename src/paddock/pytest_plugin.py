"""Tests of agents with pytest: the fixture `paddock`, recorded runs, and scenarios as tests.

Only pytest is loaded here: whoever has Paddock installed and does not use it pays for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.run.scenarios.cassettes import Cassettes
    from paddock.run.scenarios.play import CaseResult
    from paddock.run.scenarios.preparation import Prepared
    from paddock.run.scenarios.result import RunResult

_MODES = ("none", "once", "all")
_SCENARIOS = ("*.scenario.yaml", "*.scenario.yml", "paddock_*.yaml", "paddock_*.yml")


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    _leave_alone(pluginmanager)
    group = parser.getgroup("paddock", "agents under Paddock")
    group.addoption(
        "--paddock-record",
        choices=_MODES,
        default=None,
        help="runs of agents: none only replays, once records what is not there, all records anew",
    )
    group.addoption(
        "--paddock-trust",
        action="store_true",
        help="agree, for this time, to what paddock files ask of this machine",
    )
    parser.addini("paddock_record", "what --paddock-record is, when it is not said", default="once")


def _leave_alone(pluginmanager: pytest.PytestPluginManager) -> None:
    """Exclude our modules from pytest's assertion rewriting. Because of this plugin it would
    rewrite the whole package, which is slow, and in CPython 3.11 two threads must not parse at
    once."""
    hook = getattr(pluginmanager, "rewrite_hook", None)
    marked = getattr(hook, "_must_rewrite", None)
    if isinstance(marked, set):
        marked -= {name for name in marked if name.split(".")[0] == "paddock"}
    cached = getattr(hook, "_marked_for_rewrite_cache", None)
    if isinstance(cached, dict):
        cached.clear()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "paddock(file, world, faults, stage, seed, sets, envs, timeout, stdin, cwd, files, vary, "
        "trust): "
        "what runs of agents in this test have in common",
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a scenario as one test for each of its cases."""
    if not any(fnmatchcase(file_path.name, pattern) for pattern in _SCENARIOS):
        return None
    collector: pytest.Collector = ScenarioFile.from_parent(parent, path=file_path)
    return collector


@pytest.fixture
def paddock(request: pytest.FixtureRequest) -> Paddock:
    """Run agents, and return what they did: `paddock.run(["python", "agent.py"])`."""
    from paddock.run.scenarios.cassettes import Cassettes, RecordMode, place_of

    place, mode = place_of(request.path, _test_name(request)), RecordMode(_mode(request.config))
    return Paddock(request.path.parent, _common(request), Cassettes(place, mode))


class Paddock:
    """The object that the fixture provides."""

    def __init__(self, directory: Path, common: Mapping[str, Any], cassettes: Cassettes) -> None:
        self._directory = directory
        self._common = common
        self._cassettes = cassettes

    def run(self, command: Sequence[str], **words: Any) -> RunResult:
        """Run an agent to its end; replay it where there is a record. The options are those of
        `@pytest.mark.paddock`, and override them. Paths start at the test's directory."""
        from paddock.model.errors import PaddockError

        try:
            return self._cassettes.run(self._request(command, {**self._common, **words}))
        except PaddockError as error:
            message = str(error)
        pytest.fail(
            message, pytrace=False
        )  # out here: it is no error while another one was handled

    def _request(self, command: Sequence[str], words: Mapping[str, Any]) -> Any:
        from paddock.run.scenarios.cassettes import requested_run

        return requested_run(tuple(command), self._directory, words)


class ScenarioFile(pytest.File):
    """One file with a scenario."""

    def collect(self) -> Iterator[pytest.Item]:
        from paddock.doors.trust import Trust
        from paddock.model.errors import InvalidInput, NotTrusted
        from paddock.run.scenarios.discovery import scenarios_in
        from paddock.run.scenarios.preparation import prepare

        # Scenarios are always run; where nothing live may happen, only stand-ins answer.
        is_offline = _mode(self.config) == "none"
        try:
            trust = Trust(is_given=self.config.getoption("--paddock-trust"))
            cases = prepare(scenarios_in(self.path), is_offline=is_offline, trust=trust)
        except (InvalidInput, NotTrusted) as error:
            raise self.CollectError(str(error)) from None
        for prepared in cases:
            yield ScenarioItem.from_parent(self, name=prepared.case.name, prepared=prepared)


class ScenarioItem(pytest.Item):
    """One case of a scenario."""

    def __init__(self, *, prepared: Prepared, **options: Any) -> None:
        super().__init__(**options)
        self._prepared = prepared

    def runtest(self) -> None:
        from paddock.run.scenarios.play import CaseStatus, Play, run_case

        play = Play(run_case, lambda case, attempt: None)
        result = play.through([self._prepared])[0]
        for attempt in result.attempts:
            self.user_properties.append(("paddock_run", attempt.run))
        if result.standing is not CaseStatus.PASSED:
            raise _Unexpected(result)

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        if isinstance(excinfo.value, _Unexpected):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, self.name


class _Unexpected(Exception):
    """A case that did not come out as expected."""

    def __init__(self, result: CaseResult) -> None:
        from paddock.run.scenarios.junit import failure_lines

        lines = [f"{result.case.name}: {result.standing}, {result.rate} passed"]
        super().__init__("\n".join([*lines, *failure_lines(result.attempts)]))


def _mode(config: pytest.Config) -> str:
    mode = config.getoption("--paddock-record") or config.getini("paddock_record")
    if mode not in _MODES:
        raise pytest.UsageError(f"paddock_record: {mode!r} is none of {', '.join(_MODES)}")
    return str(mode)


def _common(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return the options of the markers; the one nearest to the test wins."""
    options: dict[str, Any] = {"trust": request.config.getoption("--paddock-trust")}
    for marker in reversed(list(request.node.iter_markers("paddock"))):
        if marker.args:
            raise pytest.UsageError("@pytest.mark.paddock takes only names, as in file='a.yaml'")
        options.update(marker.kwargs)
    return options


def _test_name(request: pytest.FixtureRequest) -> str:
    """Return the name of a test within its file, such as `TestRefunds.test_one[flaky]`."""
    _, _, inside = request.node.nodeid.partition("::")
    name: str = inside.replace("::", ".")
    return name
