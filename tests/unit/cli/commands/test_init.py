"""`paddock init`: what it finds in a project, and the file that it writes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from paddock.cli.commands import init
from paddock.cli.commands.policy import main as policy
from paddock.cli.project.inspection import agent_name
from paddock.cli.project.services import SERVICES
from paddock.model.errors import InvalidInput
from paddock.policy.file import load

PYPROJECT = """
[project]
name = "support-bot"
dependencies = ["anthropic>=0.40", "Stripe", "slack_sdk[async]; python_version > '3.8'"]
optional-dependencies = {db = ["psycopg[binary]"]}
"""
ENV = """ANTHROPIC_API_KEY=sk-ant-the-value
export STRIPE_API_KEY='sk_live_value'
DEBUG=1
CRM_TOKEN=x
"""
PACKAGE = '{"name": "@us/agent", "dependencies": {"openai": "1", "@slack/bolt": "1"}}'
REQUIREMENTS = "# none\n-r other.txt\nopenai==1.0\nboto3\nzenpy\n"


def make(directory: Path, **files: str) -> Path:
    for name, text in files.items():
        (directory / name.replace("__", ".")).write_text(text)
    return directory


def written(directory: Path) -> str:
    return (directory / "paddock.yaml").read_text()


def check(directory: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What `paddock policy check` says."""
    capsys.readouterr()
    assert policy(["check", str(directory / "paddock.yaml")]) == 0
    return capsys.readouterr().out


def test_file_for_a_project_that_uses_services_lets_out_just_these(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path, pyproject__toml=PYPROJECT, __env=ENV)
    assert init.main([str(tmp_path)]) == 0
    loaded = load(written(tmp_path), "paddock.yaml", str(tmp_path))
    assert loaded.terms.agent == "support-bot"
    assert loaded.terms.stage.value == "draft"
    text = written(tmp_path)
    for host in ("api.anthropic.com:443", "api.stripe.com:443", "slack.com:443"):
        assert f"- {host} " in text
    assert "api.openai.com" not in text
    assert check(tmp_path, capsys) == f"{tmp_path}/paddock.yaml: ok\n"


def test_secrets_are_named_and_no_value_is_written_or_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path, pyproject__toml=PYPROJECT, __env=ENV)
    init.main([str(tmp_path)])
    said = capsys.readouterr().out + written(tmp_path)
    assert "from: env:ANTHROPIC_API_KEY" in said
    assert "from: env:STRIPE_API_KEY" in said
    assert "# CRM_TOKEN:" in said
    assert '#   DEBUG: ""' in said
    for value in ("sk-ant-the-value", "sk_live_value"):
        assert value not in said


def test_stand_ins_are_offered_and_load_when_they_are_wanted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path, pyproject__toml=PYPROJECT, scenario__yaml="version: 1\n")
    init.main([str(tmp_path)])
    wanted = written(tmp_path).replace("# world:", "world:").replace("\n#   ", "\n  ")
    assert "api.stripe.com: payments" in wanted
    assert load(wanted, "paddock.yaml", str(tmp_path)).terms.agent == "support-bot"


def test_every_package_of_a_service_has_its_host_and_its_key_in_the_file(tmp_path: Path) -> None:
    for service in SERVICES:
        for package in service.packages if service.is_complete and not service.is_open else ():
            (tmp_path / "package.json").write_text(json.dumps({"dependencies": {package: "1"}}))
            init.main([str(tmp_path), "--force"])
            loaded = load(written(tmp_path), "paddock.yaml", str(tmp_path))
            assert {str(host) for one in loaded.terms.secrets.values() for host in one.to} >= {
                *service.hosts
            }, package


@pytest.mark.parametrize(
    "files",
    [
        {"requirements__txt": "pydantic-ai-slim[logfire, openai]>=1\n"},
        {"pyproject__toml": "[project]\noptional-dependencies.x = ['instructor[openai]']\n"},
        {"pyproject__toml": "[dependency-groups]\ndev = ['smolagents[openai]']\n"},
        {"pyproject__toml": "[tool.uv]\ndev-dependencies = ['openai']\n"},
        {"pyproject__toml": "[tool.poetry.dependencies]\nx = {extras = ['openai']}\n"},
        {"pyproject__toml": "[tool.poetry.group.a.dependencies]\nopenai = '*'\n"},
        {"Pipfile": "[packages]\npydantic-ai-slim = {extras = ['openai'], version = '*'}\n"},
        {"agent__py": "from pydantic_ai import Agent\nagent = Agent('openai:gpt-5')\n"},
        {"agent__sh": "#!/bin/sh\ncurl https://api.openai.com/v1/models\n"},
        {"agent__py": "import os\nkey = os.environ['OPENAI_API_KEY']\n"},
        {"agent__js": "fetch(url, {headers: {a: process.env.OPENAI_API_KEY}})\n"},
    ],
)
def test_a_service_is_recognised_wherever_a_project_names_it(
    tmp_path: Path, files: dict[str, str]
) -> None:
    make(tmp_path, **files)
    init.main([str(tmp_path)])
    loaded = load(written(tmp_path), "paddock.yaml", str(tmp_path))
    assert list(loaded.terms.secrets) == ["OPENAI_API_KEY"]


def test_a_value_with_credentials_in_it_is_a_secret_whatever_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = {
        "DATABASE_URL": "postgres://ada:hunter22@db.example/main",
        "CACHE": "'redis://:hunter33@cache.example:6379'",
        "BOT": "xoxb-1234-hunter44",
        "THING": "9f8e7d6c5b4a39281706f5e4d3c2b1a0",
    }
    harmless = {"LOG_LEVEL": "debug", "API_URL": "https://api.example.com/v1", "COMPAT": "1"}
    lines = [f"{name}={value}\n" for name, value in {**values, **harmless}.items()]
    make(tmp_path, __env="".join(lines))
    init.main([str(tmp_path), "--json"])
    out = capsys.readouterr().out
    assert json.loads(out)["variables"] == list(values)
    assert json.loads(out)["settings"] == list(harmless)
    assert "hunter" not in out + written(tmp_path)
    assert "9f8e" not in out + written(tmp_path) and "debug" not in written(tmp_path)


def test_a_key_whose_host_is_not_known_is_a_comment(tmp_path: Path) -> None:
    make(tmp_path, __env="AZURE_OPENAI_API_KEY=x\nAWS_SECRET_ACCESS_KEY=x\n")
    make(tmp_path, requirements__txt="boto3\n")
    init.main([str(tmp_path)])
    text = written(tmp_path)
    assert not load(text, "paddock.yaml", str(tmp_path)).terms.secrets
    assert "#   - YOURS.openai.azure.com:443" in text and "  # AZURE_OPENAI_API_KEY:" in text
    assert "Run with -e AWS_SECRET_ACCESS_KEY" in text


def test_a_service_that_needs_no_key_gets_one_only_where_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    monkeypatch.delenv("GH_TOKEN", raising=False)
    make(tmp_path, requirements__txt="PyGithub\n")
    init.main([str(tmp_path)])
    assert "- api.github.com:443" in written(tmp_path)
    assert not load(written(tmp_path), "paddock.yaml", str(tmp_path)).terms.secrets
    make(tmp_path, agent__py="import os\nos.getenv('GH_TOKEN')\n")
    init.main([str(tmp_path), "--force"])
    assert list(load(written(tmp_path), "paddock.yaml", str(tmp_path)).terms.secrets) == [
        "GH_TOKEN"
    ]


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"package__json": PACKAGE},
        {"requirements__txt": REQUIREMENTS, "__env": "OPENAI_API_KEY=x"},
        {"pyproject__toml": "[tool.poetry.dependencies]\nmistralai = '*'\n"},
        {"pyproject__toml": "not toml [", "package__json": "[1, 2"},
        {"pyproject__toml": "project = 3\ndependency-groups = {a = [{include-group = 'b'}]}"},
        {"package__json": '{"dependencies": ["openai"], "name": 7}'},
        {"__env": "A_TOKEN=1\nB_KEY=2\n\x00\nEVIL_KEY: {}\nx: y\n"},
    ],
)  # fmt: skip
def test_file_for_any_project_is_without_a_finding(
    tmp_path: Path, files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path, **files)
    init.main([str(tmp_path)])
    assert check(tmp_path, capsys).endswith("paddock.yaml: ok\n")


def test_file_for_everything_at_once_is_without_a_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [package for service in SERVICES for package in service.packages]
    keys = [key for service in SERVICES for key in service.keys]
    make(
        tmp_path,
        package__json=json.dumps({"dependencies": dict.fromkeys(names, "1")}),
        __env="".join(f"{key}=x\n" for key in keys),
    )
    init.main([str(tmp_path)])
    assert check(tmp_path, capsys).endswith("paddock.yaml: ok\n")


def test_every_key_of_the_file_has_its_comment(tmp_path: Path) -> None:
    make(tmp_path, pyproject__toml=PYPROJECT)
    init.main([str(tmp_path)])
    top = [line for line in written(tmp_path).splitlines() if line[:1].isalpha()]
    assert top
    assert all(" # " in line for line in top)


def test_file_that_is_there_is_not_written_over_unless_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "paddock.yaml").write_text("mine")
    with pytest.raises(InvalidInput, match=r"there already(?s:.*)--force"):
        init.main([str(tmp_path)])
    assert written(tmp_path) == "mine"
    assert init.main(["--force", str(tmp_path)]) == 0
    assert "version: 1" in written(tmp_path)


def test_link_that_leads_nowhere_counts_as_a_file_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "paddock.yaml").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidInput, match="there already"):
        init.main([str(tmp_path)])
    assert not os.path.exists(tmp_path / "elsewhere")


def test_json_says_what_was_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path, pyproject__toml=PYPROJECT, __env=ENV)
    init.main(["--json", str(tmp_path)])
    said = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in said["services"]] == [
        "Anthropic", "Stripe", "Slack", "PostgreSQL"
    ]  # fmt: skip
    assert said["variables"] == ["ANTHROPIC_API_KEY", "STRIPE_API_KEY", "CRM_TOKEN"]
    assert said["hidden"] == [".env"]


def test_next_step_reads_secrets_only_from_a_file_that_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env.example").write_text("API_KEY=\n")
    init.main([])
    assert "set -a" not in capsys.readouterr().out
    (tmp_path / ".env").write_text("API_KEY=x\n")
    init.main(["--force"])
    assert "set -a; . ./.env; set +a" in capsys.readouterr().out


AGENT = """from openai import OpenAI
from .near import stripe
def main(): import slack_sdk.web, google.genai
if __name__ == "__main__": main()
"""


def test_scripts_tell_what_is_used_where_no_list_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    make(tmp_path, agent__py=AGENT, notes__py="import json", __env="OPENAI_API_KEY=sk-the-value\n")
    installed = tmp_path / ".venv" / "lib"
    installed.mkdir(parents=True)
    make(installed, anthropic__py="import cohere")
    assert init.main([str(tmp_path)]) == 0
    text = written(tmp_path)
    assert "- api.openai.com:443" in text and "# openai, in agent.py" in text
    assert "- slack.com:443" in text and "generativelanguage.googleapis.com:443" in text
    assert "stripe" not in text and "cohere" not in text
    assert "  OPENAI_API_KEY:" in text and "sk-the-value" not in text
    assert check(tmp_path, capsys).endswith("paddock.yaml: ok\n")


def test_a_key_of_a_known_name_tells_the_service(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path, talk__py="import requests", __env="OPENAI_API_KEY=sk-the-value\n")
    assert init.main([str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["services"] == [{"name": "OpenAI", "package": "OPENAI_API_KEY", "file": ".env"}]
    assert found["script"] == "talk.py"


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({"zeta__py": "import openai", "main__py": "import json"}, "python zeta.py"),
        ({"main__py": "import json", "aaa__py": "import json"}, "python main.py"),
        ({"setup__py": "", "test_x__py": "", "only__py": ""}, "python only.py"),
        ({"bot__mjs": "import OpenAI from 'openai'"}, "node bot.mjs"),
        ({"agent__sh": "echo hello"}, "sh agent.sh"),
        (
            {"fetch__sh": "#!/usr/bin/env bash\ncurl -s x | jq .", "lib__sh": "f() { :; }"},
            "bash fetch.sh",
        ),
        ({"deploy__sh": "#!/bin/sh\ngit push", "agent__py": "import json"}, "python agent.py"),
        ({}, "python my_agent.py"),
    ],
)
def test_the_script_that_is_there_is_named(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    files: dict[str, str],
    command: str,
) -> None:
    make(tmp_path, **files)
    assert init.main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"  paddock run -- {command}"


def test_the_python_of_the_project_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    make(tmp_path, agent__py="import openai")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to("/bin/sh")
    assert init.main([str(tmp_path)]) == 0
    assert "paddock run -- .venv/bin/python agent.py" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text", ["(" * 100_000, "import", "import openai\0", "x = " + "-" * 50_000 + "1", "a" * 300_000]
)
def test_a_script_that_cannot_be_read_tells_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    make(tmp_path, agent__py=text)
    (tmp_path / "evil\nnetwork: {}.py").write_text("import openai")
    assert init.main([str(tmp_path)]) == 0
    assert "api.openai.com" not in written(tmp_path)


def test_a_module_of_the_project_hides_a_package(tmp_path: Path) -> None:
    make(tmp_path, agent__py="import stripe, openai", stripe__py="")
    assert init.main([str(tmp_path)]) == 0
    assert "api.stripe.com" not in written(tmp_path) and "api.openai.com" in written(tmp_path)


def test_directory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no directory"):
        init.main([str(tmp_path / "missing")])


@pytest.mark.parametrize(
    ("text", "name"),
    [("support-bot", "support-bot"), ("@us/agent", "agent"), ("Ünser Bot!", "nser-Bot"),
     ("...", "agent"), ("a" * 300, "a" * 100), ('x"\nstage: broad', "x-stage-broad")],
)  # fmt: skip
def test_name_of_a_project_becomes_one_that_the_file_takes(text: str, name: str) -> None:
    assert agent_name(text) == name


@pytest.mark.parametrize(
    "files",
    [
        {"package__json": json.dumps({"dependencies": {"x\nstage: broad #[openai]": "1"}})},
        {"pyproject__toml": '[project]\ndependencies = ["x[a\\nstage: broad #[openai]"]\n'},
        {"Pipfile": '[packages]\nx = {extras = ["openai]\\nstage: broad #[openai"]}\n'},
        {"requirements\nstage: broad #__txt": "openai\n"},
        {"__env": "A_KEY=x\rstage: broad\nB_KEY\n stage: broad=1\n"},
        {"agent__sh": "curl https://a.example\x0bstage: broad/ $A\x0bstage"},
    ],
)
def test_nothing_in_a_project_can_add_lines_to_the_file(
    tmp_path: Path, files: dict[str, str]
) -> None:
    make(tmp_path, **files)
    init.main([str(tmp_path)])
    lines = written(tmp_path).splitlines()
    assert [line.split()[:2] for line in lines if "stage:" in line] == [["stage:", "draft"]]


def test_name_of_a_project_cannot_add_lines_to_the_file(tmp_path: Path) -> None:
    make(tmp_path, package__json=json.dumps({"name": 'x"\nstage: broad #'}))
    init.main([str(tmp_path)])
    assert load(written(tmp_path), "paddock.yaml", str(tmp_path)).terms.stage.value == "draft"


def test_every_service_is_in_the_table_of_the_docs() -> None:
    table = (Path(__file__).resolve().parents[4] / "docs" / "agents.md").read_text()
    for service in SERVICES:
        row = next(line for line in table.splitlines() if line.startswith(f"| {service.name} | "))
        for name in (*service.packages, *service.keys, *service.hosts):
            assert f"`{name}`" in row, name
