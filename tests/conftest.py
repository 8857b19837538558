"""A PADDOCK_HOME for each worker, and the choice between the default and the thorough suite.

The default suite checks every promise once. `--thorough` selects only what that leaves out: tests
marked `thorough`, and with higher counts those marked `repeated` and those that Hypothesis repeats.
What one kind of test needs beyond that lives in the conftest of its own directory.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile

import hypothesis
import pytest

from repetition import VARIABLE

EXAMPLES, THOROUGH_EXAMPLES = 20, 300
_made: list[str] = []

# Always the same examples, and no time limit on one: the machine may be busy.
hypothesis.settings.register_profile(
    "default", derandomize=True, deadline=None, database=None, max_examples=EXAMPLES,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)  # fmt: skip
hypothesis.settings.register_profile(
    "thorough", hypothesis.settings.get_profile("default"), max_examples=THOROUGH_EXAMPLES
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--thorough", action="store_true", help="run only what the default suite leaves out"
    )


def pytest_configure(config: pytest.Config) -> None:
    is_thorough = config.getoption("--thorough")
    os.environ[VARIABLE] = "1" if is_thorough else "0"
    hypothesis.settings.load_profile("thorough" if is_thorough else "default")
    # One for each worker of xdist, so that a test finds in it only what it made itself, or one that
    # ran before it. Short, because paths of Unix sockets have 107 bytes.
    _made.append(tempfile.mkdtemp(prefix="pdk-"))
    os.environ["PADDOCK_HOME"] = os.path.join(_made[0], "h")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    is_left_out = _is_in_default if config.getoption("--thorough") else _is_thorough_only
    deselected = [item for item in items if is_left_out(item)]
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if not is_left_out(item)]


def _is_thorough_only(item: pytest.Item) -> bool:
    return item.get_closest_marker("thorough") is not None


def _is_in_default(item: pytest.Item) -> bool:
    """Whether the default suite has said all that this test can say."""
    if item.get_closest_marker("thorough") or item.get_closest_marker("repeated"):
        return False
    return not hypothesis.is_hypothesis_test(getattr(item, "obj", None))


def pytest_unconfigure(config: pytest.Config) -> None:
    if not _made:
        return
    if "paddock.doors.machine.engine" in sys.modules:
        from paddock.doors.machine.engine import close_all

        close_all()
    shutil.rmtree(_made.pop(), ignore_errors=True)
