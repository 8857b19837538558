"""The keeper gives values to the door and to nobody else, until they are revoked."""

from __future__ import annotations

import asyncio
import copy
import pickle
import re
from pathlib import Path

import pytest

from paddock.doors.network.secrets import keeper as secrets
from paddock.doors.network.secrets.injection import Injector
from paddock.doors.network.secrets.keeper import Revoked, SecretKeeper
from paddock.journal.secrets.mask import Masker
from paddock.model.errors import InvalidInput, SandboxError
from paddock.state.home import Home
from paddock.state.revocations import holders, revoke
from unit.doors.network.keepers import API, ELSEWHERE, VALUE, make_keeper, terms_of


def home_of(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def test_sandbox_gets_placeholders_that_need_no_escaping(tmp_path: Path) -> None:
    keeper = make_keeper(tmp_path, terms_of("KEY"), terms_of("OTHER_KEY"))
    environment = keeper.environment()
    assert list(environment) == ["KEY", "OTHER_KEY"]
    assert re.fullmatch(r"paddock_OTHER_KEY_[0-9a-f]{24}", environment["OTHER_KEY"])
    assert VALUE not in str(environment)


def test_placeholders_of_two_sandboxes_differ(tmp_path: Path) -> None:
    one, other = (make_keeper(tmp_path, terms_of("KEY")) for _ in range(2))
    assert one.environment() != other.environment()


def test_fork_has_the_placeholders_that_its_memory_has(tmp_path: Path) -> None:
    keeper = make_keeper(tmp_path, terms_of("KEY"))
    forked = keeper.fork()
    keeper.close()
    assert forked.value("KEY") == VALUE
    revoke(home_of(tmp_path), "KEY")
    assert forked.is_revoked("KEY")
    assert forked.fork().is_revoked("KEY")


def test_value_goes_to_the_hosts_it_is_for(tmp_path: Path) -> None:
    keeper = make_keeper(tmp_path, terms_of("KEY"), terms_of("WILD", "*.example.com"))
    assert keeper.names_for(API) == ("KEY", "WILD")
    assert keeper.names_for("b.example.com") == ("WILD",)
    assert keeper.names_for(ELSEWHERE) == keeper.names_for("example.com") == ()


def test_nothing_that_shows_a_keeper_shows_a_value(tmp_path: Path) -> None:
    keeper = make_keeper(tmp_path, terms_of("KEY"))
    secret = keeper.secret("KEY")
    scrubber = keeper.scrubber(API)
    for one in (keeper, secret, vars(keeper), scrubber, secret.needle, scrubber.stream()):  # type: ignore[union-attr]
        assert VALUE not in repr(one)
        assert VALUE not in f"{one}"
        assert "sk-live" not in repr(one)


def test_keeper_and_what_it_keeps_are_not_copied(tmp_path: Path) -> None:
    keeper = make_keeper(tmp_path, terms_of("KEY"))
    secret = keeper.secret("KEY")
    for one in (keeper, secret, secret.needle, secret._value):
        with pytest.raises(TypeError):
            pickle.dumps(one)
        with pytest.raises(TypeError):
            copy.deepcopy(one)


def test_error_about_an_unknown_secret_shows_no_other(tmp_path: Path) -> None:
    keeper = make_keeper(tmp_path, terms_of("KEY"))
    with pytest.raises(InvalidInput, match="no secret 'NONE'"):
        keeper.value("NONE")


def test_journal_masks_the_values(tmp_path: Path) -> None:
    keeper = make_keeper(tmp_path, terms_of("KEY"))
    masked = Masker(keeper.masker_values()).mask_text(f"x {VALUE} {keeper.environment()['KEY']}")
    assert masked == f"x {{{{secret:KEY}}}} {keeper.environment()['KEY']}"


def test_value_that_would_break_a_header_is_not_kept_whoever_brings_it(tmp_path: Path) -> None:
    make_keeper(tmp_path)
    with pytest.raises(InvalidInput, match="line break"):
        SecretKeeper.of_values(home_of(tmp_path), {"K": terms_of("K")}, {"K": "secret\r\nX: 1"})


def test_revoked_value_is_given_to_nobody_and_stays_revoked(tmp_path: Path) -> None:
    keeper = make_keeper(tmp_path, terms_of("KEY"), terms_of("OTHER"))
    revoke(home_of(tmp_path), "KEY")
    with pytest.raises(Revoked, match="KEY was revoked"):
        keeper.value("KEY")
    (tmp_path / "home" / "secrets" / "revoked" / "KEY").unlink()
    with pytest.raises(Revoked):
        keeper.value("KEY")
    assert keeper.value("OTHER") == VALUE
    assert make_keeper(tmp_path, terms_of("KEY")).value("KEY") == VALUE


def test_revocation_while_a_secret_is_being_loaded_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_keeper(tmp_path)

    def slow(*_: object) -> str:
        revoke(home_of(tmp_path), "KEY")
        return VALUE

    monkeypatch.setattr(secrets, "load", slow)
    assert make_keeper(tmp_path, terms_of("KEY")).is_revoked("KEY")


def test_home_that_is_gone_revokes_nothing_silently_and_gives_nothing(tmp_path: Path) -> None:
    keeper = make_keeper(tmp_path, terms_of("KEY"))
    place = tmp_path / "home" / "secrets"
    place.write_text("not a directory")
    with pytest.raises(Revoked):
        keeper.value("KEY")


def test_watch_tells_of_each_revoked_secret_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "POLL_S", 0.01)
    keeper = make_keeper(tmp_path, terms_of("KEY"), terms_of("OTHER"))

    async def scene() -> None:
        told: asyncio.Queue[str] = asyncio.Queue()
        watching = asyncio.create_task(keeper.watch(told.put_nowait))
        await asyncio.sleep(0.05)
        assert told.empty()
        revoke(home_of(tmp_path), "OTHER")
        assert await told.get() == "OTHER"
        await asyncio.sleep(0.05)
        assert told.empty()
        revoke(home_of(tmp_path), "KEY")
        assert await told.get() == "KEY"
        await watching
        assert told.empty()

    asyncio.run(asyncio.wait_for(scene(), 20))


def test_keeper_is_listed_from_its_start_to_its_end(tmp_path: Path) -> None:
    keeper = make_keeper(tmp_path, terms_of("KEY"))
    assert holders(home_of(tmp_path)) == []
    keeper.enlist("box-1")
    assert [one.sandbox_id for one in holders(home_of(tmp_path))] == ["box-1"]
    record = (tmp_path / "home" / "secrets" / "box-1.json").read_text()
    assert VALUE not in record
    assert keeper.secret("KEY").token not in record
    keeper.close()
    assert holders(home_of(tmp_path)) == []


def test_keeper_that_is_closed_is_not_taken_for_one_without_secrets(tmp_path: Path) -> None:
    keeper = make_keeper(tmp_path, terms_of("KEY", placed="header:Authorization=Bearer"))
    injector = Injector(keeper)
    injector.apply([], "/", None, API)
    assert keeper.scrubber(API) is not None
    keeper.close()
    keeper.close()
    assert keeper
    for use in (
        lambda: keeper.value("KEY"),
        lambda: keeper.scrubber(API),
        lambda: injector.apply([], "/", None, API),
        lambda: injector.apply([], "/", None, ELSEWHERE),
    ):
        with pytest.raises(SandboxError, match="has ended"):
            use()


def test_keeper_of_nothing_writes_nothing(tmp_path: Path) -> None:
    keeper = make_keeper(tmp_path)
    keeper.enlist("box-1")
    assert not (tmp_path / "home" / "secrets").exists()
    assert keeper.environment() == {}
    assert keeper.scrubber(API) is None
