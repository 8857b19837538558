"""`paddock policy check` on a world: what only the stand-ins know to be wrong, at its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.cli.main import main

HEAD = "version: 1\nagent: a\nstage: observe\nworld:\n"


def checked(tmp_path: Path, capsys: pytest.CaptureFixture[str], world: str) -> tuple[int, str]:
    file = tmp_path / "paddock.yaml"
    file.write_text(HEAD + world)
    code = main(["policy", "check", str(file)])
    return code, capsys.readouterr().out.replace(str(tmp_path), "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("{service: payments, curency: eur}", "world.b.example.curency: unknown key"),
        ("{service: payments, seed: no.json}", "world.b.example.seed: /no.json cannot be read"),
        ("{service: payments, timeout: soon}", "'soon' is not a duration"),
        ("{service: model, script: no.yaml}", "the script /no.yaml cannot be read"),
        ("{service: openapi, spec: no.yaml}", "no.yaml cannot be read"),
        ("{service: app}", "app"),
    ],
)
def test_a_mistake_that_a_stand_in_knows_is_told_at_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str, said: str
) -> None:
    code, out = checked(tmp_path, capsys, f"  a.example: chat\n  b.example: {words}\n")
    assert code == 1
    assert out.startswith("/paddock.yaml:6:14: error: world.b.example")
    assert said in out


def test_a_world_without_mistakes_is_well_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data.json").write_text('{"customers": [{"name": "Ada"}]}')
    world = "  a.example: chat\n  b.example: {service: payments, seed: data.json}\n"
    assert checked(tmp_path, capsys, world) == (0, "/paddock.yaml: ok\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.json", "paddock.yaml"]
