"""The options that say what a sandbox is to be: each spelling becomes what Sandbox.create takes."""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.cli.options import add_spec_options, pair, spec_from
from paddock.model.errors import InvalidInput
from paddock.model.spec import Limits, MountMode, Spec

LIMIT_NAMES = [field.name for field in fields(Limits)]


def asked(*words: str) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    add_spec_options(parser)
    return spec_from(parser.parse_args(words))


def parsed(*words: str) -> Spec:
    """As far as a sandbox would get with it before anything is started."""
    return Spec.parse(**asked(*words))


def refused(*words: str) -> str:
    with pytest.raises(InvalidInput) as caught:
        parsed(*words)
    return str(caught.value)


def test_no_option_gives_the_default_sandbox_for_an_hour() -> None:
    assert parsed() == Spec(timeout_s=3600.0)


@pytest.mark.parametrize("option", ["--mount", "-m"])
def test_mount_is_read_only_unless_it_says_otherwise(option: str) -> None:
    [mount] = parsed(option, "data:/input").mounts
    assert (mount.source, mount.target, mount.mode) == ("data", "/input", MountMode.READ)


@pytest.mark.parametrize("mode", list(MountMode))
def test_mount_has_the_mode_that_it_names(mode: MountMode) -> None:
    [mount] = parsed("-m", f".:/workspace:{mode.value}").mounts
    assert mount.mode is mode


def test_mounts_and_volumes_come_in_their_order() -> None:
    spec = parsed("-m", "a:/a", "--volume", "v1:/data", "-m", "b:/b:write")
    assert [m.target for m in spec.mounts] == ["/a", "/b", "/data"]
    assert spec.mounts[2].volume == "v1"
    assert spec.mounts[2].mode is MountMode.WRITE


@pytest.mark.parametrize("text", ["", "a", "a:/b:read:more", "a:/b:read:"])
def test_mount_that_is_no_mount_is_refused_by_its_option(text: str) -> None:
    assert refused("--mount", text).startswith("--mount:")


@pytest.mark.parametrize(
    ("text", "key"),
    [("a:/b:rw", "mounts.mode"), ("a:b", "mounts.target"), (":/b", "mounts.source"),
     ("a:", "mounts.target"), ("a:/usr", "mounts.target")],
)  # fmt: skip
def test_part_of_a_mount_that_is_wrong_is_refused_by_its_key(text: str, key: str) -> None:
    assert refused("--mount", text).startswith(f"{key}:")


@pytest.mark.parametrize("text", ["v1", "", "v1/data"])
def test_volume_that_is_no_volume_is_refused_by_its_option(text: str) -> None:
    assert refused("--volume", text).startswith("--volume:")


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [("cpu=1.5", "cpu", 1.5), ("memory=512MiB", "memory", 512 << 20), ("pids=64", "pids", 64),
     ("disk=1GB", "disk", 10**9), ("files=100", "files", 100), ("output=64KiB", "output", 65536),
     ("time=10m", "time", 600.0)],
)  # fmt: skip
def test_every_limit_can_be_given_on_the_command_line(text: str, name: str, value: Any) -> None:
    for option in ("--limit", "-l"):
        assert getattr(parsed(option, text).limits, name) == value


def test_the_help_names_every_limit() -> None:
    parser = argparse.ArgumentParser()
    add_spec_options(parser)
    text = " ".join(parser.format_help().split())
    assert all(name in text for name in LIMIT_NAMES)


@pytest.mark.parametrize("text", ["", "memory", "=1", "pids=many", "pids=1.5", "cpu=", "cpu=x"])
def test_limit_that_is_no_limit_is_refused_by_its_option(text: str) -> None:
    assert refused("--limit", text).startswith("--limit:")


@pytest.mark.parametrize(
    ("text", "key"),
    [("mem=1GiB", "limits"), ("memory=lots", "limits.memory"), ("cpu=0", "limits.cpu"),
     ("cpu=nan", "limits.cpu"), ("pids=-1", "limits.pids"), ("time=", "limits.time")],
)  # fmt: skip
def test_limit_of_a_wrong_name_or_value_is_refused_by_its_key(text: str, key: str) -> None:
    assert refused("--limit", text).startswith(f"{key}:")


def test_environment_keeps_everything_behind_the_first_sign() -> None:
    assert dict(parsed("-e", "A=b=c", "--env", "EMPTY=").envs) == {"A": "b=c", "EMPTY": ""}


@pytest.mark.parametrize("text", ["", "A", "=x"])
def test_environment_without_a_name_or_a_sign_is_refused(text: str) -> None:
    assert refused("--env", text).startswith("--env:")


@pytest.mark.parametrize(
    ("words", "key"),
    [(("--timeout", "soon"), "timeout"), (("--timeout", "0"), "timeout"),
     (("--template", "../x"), "template"), (("--snapshot", "../x"), "snapshot"),
     (("--env", "1A=x"), "envs")],
)  # fmt: skip
def test_other_option_that_is_wrong_is_refused_by_its_key(words: Any, key: str) -> None:
    assert refused(*words).startswith(f"{key}:")


@settings(deadline=None)
@given(st.text().filter(lambda t: "=" not in t and t), st.text())
def test_pair_is_split_at_its_first_sign(name: str, value: str) -> None:
    assert pair(f"{name}={value}", "--env") == (name, value)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["-m", "-l", "-e", "--volume"]), st.text()), max_size=3))
def test_any_words_are_a_spec_or_refused_with_a_reason(options: list[tuple[str, str]]) -> None:
    words = [
        f"{option}={text}" if option == "--volume" else f"{option}{text}"
        for option, text in options
        if text
    ]
    try:
        parsed(*words)
    except InvalidInput as error:
        assert str(error)
