"""`paddock secrets`, as a shell and as a script meet it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from paddock.doors.network.secrets.keeper import SecretKeeper
from paddock.model.hosts import HostPattern
from paddock.policy.secrets import SecretTerms
from paddock.state.home import Home

VALUE = "sk-live-0123456789"


def keeper_of(home: Path, sandbox_id: str, *names: str) -> SecretKeeper:
    terms = {
        name: SecretTerms(name, "env:X", (HostPattern.parse("api.example.com"),)) for name in names
    }
    place = Home(home)
    place.make()
    keeper = SecretKeeper.load(place, terms, {"X": VALUE})
    keeper.enlist(sandbox_id)
    return keeper


def test_list_shows_names_and_no_values(home: Path, call: Any) -> None:
    keeper_of(home, "box-1", "STRIPE_KEY", "OTHER")
    said = call("secrets", "list")
    assert said.code == 0
    lines = said.out.splitlines()
    assert len(lines) == 3
    assert "box-1" in lines[1]
    assert "STRIPE_KEY" in lines[1]
    assert "in use" in lines[1]
    assert VALUE not in said.out


def test_list_as_json_says_who_has_what(home: Path, call: Any) -> None:
    keeper_of(home, "box-1", "STRIPE_KEY", "OTHER")
    call("secrets", "revoke", "OTHER")
    (one,) = call("secrets", "list", "--json").json
    assert one.pop("started_us") > 0
    assert one == {
        "sandbox_id": "box-1",
        "secrets": ["OTHER", "STRIPE_KEY"],
        "revoked": ["OTHER"],
        "host_pid": os.getpid(),
    }


def test_list_of_nothing_is_empty(home: Path, call: Any) -> None:
    assert call("secrets", "list").out == ""
    assert call("secrets", "list", "--json").json == []


def test_sandbox_that_ended_is_not_listed(home: Path, call: Any) -> None:
    keeper_of(home, "box-1", "STRIPE_KEY").close()
    assert call("secrets", "list", "--json").json == []


def test_revoke_takes_the_secret_from_all_who_have_it(home: Path, call: Any) -> None:
    first = keeper_of(home, "box-1", "STRIPE_KEY", "OTHER")
    second = keeper_of(home, "box-2", "STRIPE_KEY")
    keeper_of(home, "box-3", "OTHER")
    said = call("secrets", "revoke", "STRIPE_KEY")
    assert said.code == 0
    assert "taken from 2 running sandboxes: box-1, box-2" in said.out
    assert first.is_revoked("STRIPE_KEY")
    assert second.is_revoked("STRIPE_KEY")
    assert not first.is_revoked("OTHER")


def test_second_revoke_counts_only_those_that_got_it_since(home: Path, call: Any) -> None:
    keeper_of(home, "box-1", "STRIPE_KEY")
    call("secrets", "revoke", "STRIPE_KEY")
    keeper_of(home, "box-2", "STRIPE_KEY")
    assert call("secrets", "revoke", "STRIPE_KEY", "--json").json == {
        "name": "STRIPE_KEY",
        "revoked": True,
        "sandboxes": ["box-2"],
    }


def test_revoke_of_what_nobody_has_says_so_and_holds(home: Path, call: Any) -> None:
    said = call("secrets", "revoke", "NOBODYS")
    assert said.code == 0
    assert "no running sandbox had it" in said.out
    assert (home / "secrets" / "revoked" / "NOBODYS").exists()


def test_revoke_of_what_is_no_name_is_a_mistake_of_the_command_line(home: Path, call: Any) -> None:
    said = call("secrets", "revoke", "../NAME")
    assert said.code == 2
    assert "not a name for a secret" in said.err


def test_home_that_cannot_be_written_is_said(home: Path, call: Any) -> None:
    home.mkdir()
    (home / "secrets").write_text("")
    said = call("secrets", "revoke", "KEY")
    assert said.code == 3
    assert "cannot be revoked" in said.err


def test_command_is_needed(home: Path, call: Any) -> None:
    assert call("secrets").code == 2
