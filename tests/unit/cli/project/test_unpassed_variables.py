"""Variables that an agent reads and does not get, though they are set where it is started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paddock.cli.project.unpassed_variables import describe, unpassed_variables
from paddock.run.order import order_of
from unit.cli.conftest import Call

FILE = """version: 1
agent: a
stage: broad
sandbox: {envs: {MODE: test}}
network: {allow: [api.openai.com:443]}
secrets: {OPENAI_API_KEY: {from: env:OTHER, to: [api.openai.com]}}
"""


def unpassed(project: Path, *command: str, envs: dict[str, str] | None = None) -> tuple[str, ...]:
    return unpassed_variables(order_of(command or ("true",), cwd=project, envs=envs))


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("agent.py", "os.environ['THE_NAME']"),
        ("tools/a.py", 'from os import getenv\ngetenv("THE_NAME", "x")'),
        ("agent.py", "os.environ.get( 'THE_NAME' )"),
        ("agent.mjs", "process.env.THE_NAME ?? 1"),
        ("agent.ts", 'process.env["THE_NAME"]'),
        ("agent.sh", 'echo "${THE_NAME:-none}"'),
    ],
)
def test_variable_that_a_script_reads_is_named_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str
) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(f"{text}\n# also PATH and $HOME\nos.environ['HOME']\n")
    assert unpassed(tmp_path) == ()
    monkeypatch.setenv("THE_NAME", "value")
    monkeypatch.setenv("ANOTHER_NAME", "value")
    assert unpassed(tmp_path) == ("THE_NAME",)
    assert unpassed(tmp_path, envs={"THE_NAME": "x"}) == ()


def test_variable_in_code_on_the_command_line_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_NAME", "value")
    assert unpassed(tmp_path, "bash", "-c", "echo $THE_NAME") == ("THE_NAME",)
    assert unpassed(tmp_path, "python3", "-c", "import os; os.environ['THE_NAME']") == ("THE_NAME",)


def test_variables_of_packages_are_named_unless_the_file_passes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "requirements.txt").write_text("pydantic-ai-slim[openai]\n")
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "STRIPE_API_KEY", "MODE"):
        monkeypatch.setenv(name, "value")
    assert unpassed(tmp_path) == ("OPENAI_API_KEY", "OPENAI_BASE_URL")
    (tmp_path / "paddock.yaml").write_text(FILE)
    (tmp_path / "agent.py").write_text("os.environ['MODE']")
    assert unpassed(tmp_path) == ("OPENAI_BASE_URL",)


def test_sentence_says_how_to_pass_keys_and_settings() -> None:
    said = describe(("CRM_TOKEN", "LOG_LEVEL", "MODE")).splitlines()
    assert said[0].endswith("CRM_TOKEN, LOG_LEVEL, MODE")
    assert said[1:] == [
        "  hint: write CRM_TOKEN under secrets: in the paddock file",
        "  hint: say -e LOG_LEVEL -e MODE",
    ]


def test_value_with_credentials_is_a_secret_whatever_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://me:open-sesame@db.example/shop")
    said = describe(("DATABASE_URL",))
    assert "write DATABASE_URL under secrets:" in said
    assert "-e DATABASE_URL" not in said and "sesame" not in said


def test_key_that_signs_is_not_suggested_as_a_secret() -> None:
    assert describe(("AWS_SECRET_ACCESS_KEY",)).endswith("hint: say -e AWS_SECRET_ACCESS_KEY")


def test_run_names_them_at_its_end_without_values(
    home: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setenv("CRM_TOKEN", "the-value-of-it")
    command = ("--", "sh", "-c", "echo $CRM_TOKEN; exit 3")
    said = call("run", *command)
    assert said.code == 3
    assert "not passed on: CRM_TOKEN\n" in said.err
    data = call("run", "--json", *command)
    assert json.loads(data.out)["not_passed"] == ["CRM_TOKEN"]
    assert "CRM_TOKEN" not in call("run", "-q", *command).err
    assert "the-value-of-it" not in said.err + said.out + data.out + data.err
