"""The options that say what a sandbox is to be: each spelling becomes what Sandbox.create takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.cli.options import add_spec_options, pair, spec_from
from paddock.cli.parser import CommandParser
from paddock.doors.terms import terms_of
from paddock.model.errors import InvalidInput
from paddock.model.spec import Limits, MountMode, Spec
from paddock.policy.decide import Policy
from paddock.policy.network import Mode
from unit.cli.conftest import Call

FILE_WITH_NETWORK = """\
version: 1
agent: a
stage: broad
network: {allow: ["api.example:443"]}
secrets: {KEY: {from: env:KEY, to: [api.example]}}
"""
LIMIT_NAMES = Limits.__struct_fields__


def asked(*words: str) -> dict[str, Any]:
    parser = CommandParser(prog="paddock exec")
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
    parser = CommandParser(prog="paddock exec")
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


@pytest.mark.parametrize(
    ("option", "text", "hint"),
    [("--limit", "memory=1", "write the unit, as in 1GiB"),
     ("--limit", "disk=100", "write the unit, as in 100MiB"),
     ("--limit", "mem=1GiB", "did you mean memory?"), ("--timeout", "5", "write 5s, 5m or 5h"),
     ("--limit", "memory=1Gi", "write 1GiB"), ("--limit", "cpu=500m", "as in cpu=0.5"),
     ("--limit", "memory", "as in memory=512MiB"), ("--limit", "time=5 minutes", "write 5m"),
     ("--mount", "./a:/a:ro", "say read"), ("--mount", "./a", "as in ./data:/data"),
     ("--volume", "cache", "as in cache:/data"), ("--template", "ubuntu:22.04", "template list")],
)  # fmt: skip
def test_plausible_mistake_is_answered_with_what_to_write(
    option: str, text: str, hint: str
) -> None:
    assert hint in refused(option, text).partition("hint: ")[2]


def terms(*words: str) -> Policy:
    """The policy under which a sandbox with these options would start."""
    given = asked(*words)
    return terms_of(None, given)[0]


def test_allowed_hosts_are_the_network_of_the_sandbox() -> None:
    network = terms("--allow", "api.example.com:443", "--allow", "db.example:5432/tcp").network
    assert network is not None
    assert [str(one) for one in network.allow] == ["api.example.com:443", "db.example:5432/tcp"]


def test_without_a_word_about_the_network_nothing_is_said_about_it() -> None:
    assert not {"network", "secrets"} & set(asked())


def test_no_network_closes_what_the_file_opens(tmp_path: Path) -> None:
    file = tmp_path / "paddock.yaml"
    file.write_text(FILE_WITH_NETWORK)
    given = asked("-f", str(file), "--no-network")
    policy, _ = terms_of(str(file), given)
    assert policy.network is not None
    assert policy.network.mode is Mode.NONE
    assert not policy.secrets


def test_secret_goes_to_the_hosts_behind_the_last_sign() -> None:
    words = ("--allow", "a.example:443", "--allow", "b.example:443")
    secrets = terms(*words, "--secret", "KEY=file:/run/a@b/key@a.example,b.example").secrets
    assert secrets["KEY"].source == "file:/run/a@b/key"
    assert [str(one) for one in secrets["KEY"].to] == ["a.example", "b.example"]


def test_secret_alone_keeps_the_network_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "paddock.yaml"
    file.write_text(FILE_WITH_NETWORK)
    policy, _ = terms_of(str(file), asked("-f", str(file), "--secret", "B=env:B@api.example"))
    assert policy.network is not None
    assert policy.network.covers("api.example", 443) is not None
    assert set(policy.secrets) == {"B"}


@for_each(
    ("words", "said"),
    [(("--allow", "api.example.com"), "--allow: api.example.com has no port"),
     (("--allow", "https://api.example.com"), "--allow: 'https://api.example.com' is a URL"),
     (("--allow", "*:443"), "--allow: '*' would be every host"), (("--allow", ""), "--allow:"),
     (("--no-network", "--allow", "a.example:443"), "--no-network leaves nothing"),
     (("--no-network", "--secret", "K=env:K@a.example"), "--no-network leaves nothing"),
     (("--secret", "K=env:K@a.example"), "--secret: there is no network"),
     (("--allow", "a.example:1", "--secret", "K=env:K"), "--secret: is not NAME=FROM@HOST"),
     (("--allow", "a.example:1", "--secret", "K=env:K@"), "--secret: secrets.K.to"),
     (("--allow", "a.example:1", "--secret", "1K=env:K@a.example"), "--secret: secrets.1K"),
     (("--allow", "a.example:1", "--secret", "K=env:A@a.example", "--secret", "K=env:B@a.example"),
      "--secret: one name is there twice")],
)  # fmt: skip
def test_word_about_the_network_that_is_wrong_is_refused_by_its_option(
    words: tuple[str, ...], said: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        asked(*words)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    "text", ["sk_live_12345678", "KEY=sk_live_12345678", "KEY=sk_live_12345678@a.example",
             "KEY=env:sk_live-12345678@a.example"],
)  # fmt: skip
def test_value_that_was_written_by_mistake_is_in_no_message(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        asked("--allow", "a.example:443", "--secret", text)
    assert "12345678" not in str(caught.value)


@pytest.mark.parametrize(
    "words", [("--allow", "a.example:1"), ("--no-network",), ("--secret", "K=env:K@a.example")]
)
@pytest.mark.parametrize("command", [("exec", "--id", "abc"), ("exec", "--id=abc")])
def test_network_of_a_running_sandbox_is_not_seemingly_changed(
    call: Call, home: Path, command: tuple[str, ...], words: tuple[str, ...]
) -> None:
    said = call(*command, *words, "--", "true")
    assert said.code == 2
    assert "are for a new sandbox" in said.err


def test_environment_keeps_everything_behind_the_first_sign() -> None:
    assert dict(parsed("-e", "A=b=c", "--env", "EMPTY=").envs) == {"A": "b=c", "EMPTY": ""}


def test_name_alone_has_the_value_that_it_has_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOG_LEVEL", "debug=1")
    assert dict(parsed("-e", "LOG_LEVEL").envs) == {"LOG_LEVEL": "debug=1"}


@pytest.mark.parametrize("text", ["", "NOT_SET_ANYWHERE", "=x"])
def test_environment_without_a_name_or_a_value_is_refused(text: str) -> None:
    assert refused("--env", text).startswith("--env:")


@pytest.mark.parametrize(
    ("words", "key"),
    [(("--timeout", "soon"), "timeout"), (("--timeout", "0s"), "timeout"),
     (("--timeout", "5"), "timeout"),
     (("--template", "../x"), "template"), (("--snapshot", "../x"), "snapshot"),
     (("--env", "1A=x"), "envs")],
)  # fmt: skip
def test_other_option_that_is_wrong_is_refused_by_its_key(words: Any, key: str) -> None:
    assert refused(*words).startswith(f"{key}:")


@given(st.text().filter(lambda t: "=" not in t and t), st.text())
def test_pair_is_split_at_its_first_sign(name: str, value: str) -> None:
    assert pair(f"{name}={value}", "--env") == (name, value)


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
