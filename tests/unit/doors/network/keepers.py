"""Secrets for tests, made from a few words."""

from __future__ import annotations

from pathlib import Path

from paddock.doors.network.secrets.keeper import SecretKeeper
from paddock.model.hosts import HostPattern
from paddock.policy.secrets import SecretTerms
from paddock.state.home import Home

API = "api.example.com"
ELSEWHERE = "evil.example.net"
VALUE = 'sk-live-9aZ/+x0Qe"é&='


def terms_of(name: str, to: str = API, placed: str | None = None) -> SecretTerms:
    return SecretTerms(name, f"env:{name}", (HostPattern.parse(to),), placed)


def make_keeper(
    tmp_path: Path, *terms: SecretTerms, values: dict[str, str] | None = None
) -> SecretKeeper:
    """Each secret has `VALUE` but where `values` says another."""
    home = Home(tmp_path / "home")
    home.make()
    environment = {one.name: (values or {}).get(one.name, VALUE) for one in terms}
    return SecretKeeper.load(home, {one.name: one for one in terms}, environment)
