"""What a paddock file asks of the host, and when it is asked about again."""

from __future__ import annotations

import json
import os
import shlex
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from paddock import Sandbox
from paddock.doors.network.secrets.sources import load as load_secret
from paddock.doors.terms import load_file, policy_of, terms_of
from paddock.doors.tool_run import open_run
from paddock.doors.trust import Trust, TrustRequest, check_trust, requests_of
from paddock.model.errors import NotTrusted
from paddock.policy.file import load
from paddock.run.order import order_of
from paddock.state.home import Home
from paddock.state.trusted_files import TrustedFiles

HEAD = "version: 1\nagent: a\nstage: observe\n"
NETWORK = "network: {allow: ['a.example:443', 'b.example:443']}\n"


def texts(place: Path, said: str) -> list[str]:
    file = place / "paddock.yaml"
    file.write_text(HEAD + said)
    return [one.text for one in requests_of(load_file(file))]


class Person:
    """Answers, and notes what it was asked."""

    def __init__(self, answer: bool) -> None:
        self.answer = answer
        self.asked: list[list[str]] = []

    def __call__(self, path: str, requests: Sequence[TrustRequest]) -> bool:
        self.asked.append([one.text for one in requests])
        return self.answer


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "paddock.yaml"
    secret = "secrets: {T: {from: 'command:touch x', to: [a.example]}}\n"
    path.write_text(HEAD + NETWORK + secret)
    return path


def test_requests_are_the_parts_that_act_on_the_host(tmp_path: Path) -> None:
    outside = tmp_path.parent
    said = NETWORK + (
        "secrets:\n"
        "  A: {from: {command: [sh, -c, 'id; id']}, to: [a.example]}\n"
        f"  B: {{from: 'file:{outside}/key', to: [a.example]}}\n"
        "  C: {from: 'keyring:service/user', to: [a.example]}\n"
        "  D: {from: 'env:TOKEN', to: [a.example]}\n"
        "sandbox:\n"
        "  mounts:\n"
        f"    - {{source: {tmp_path}, target: /a, mode: write}}\n"
        f"    - {{source: {outside}, target: /b, mode: read}}\n"
        f"    - {{source: {tmp_path}, target: /c, mode: overlay}}\n"
        "    - {volume: data, target: /d}\n"
    )
    assert texts(tmp_path, said) == [
        "run on this machine: sh -c 'id; id', for secret A, sent to a.example",
        f"read the file {outside}/key, for secret B, sent to a.example",
        "ask the keyring for service/user, for secret C, sent to a.example",
        f"let the agent write to {tmp_path}",
        f"show the agent {outside}",
        "let the agent write to the volume data",
    ]


def test_link_in_the_project_that_leads_out_is_outside(tmp_path: Path) -> None:
    place, outside = tmp_path / "project", tmp_path / "outside"
    place.mkdir()
    outside.mkdir()
    (outside / "key.json").write_text("{}")
    (place / "in").symlink_to(outside)
    (place / "data.json").symlink_to(outside / "key.json")
    said = f"sandbox: {{mounts: [{{source: {place}/in, target: /a}}]}}\n" + (
        "world: {a.example: {service: payments, seed: data.json}}\n"
    )
    assert texts(place, said) == [
        f"show the agent {outside}",
        f"show a stand-in {outside}/key.json",
    ]


def test_words_of_a_stand_in_are_no_paths_of_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, current = tmp_path / "project", tmp_path / "current"
    place.mkdir()
    (current / "answer").mkdir(parents=True)
    monkeypatch.chdir(current)
    script = '{otherwise: "answer {{counter.x}}: {{user}}."}'
    assert texts(place, f"world: {{a.example: {{service: model, script: {script}}}}}\n") == []


def test_ordinary_file_needs_no_agreement(tmp_path: Path) -> None:
    assert texts(tmp_path, NETWORK + "rules: []\n") == []


def test_without_an_agreement_nothing_starts(file: Path) -> None:
    for start in (
        lambda: Sandbox.create(file),
        lambda: open_run(file),
        lambda: order_of(["true"], file=file, cwd=file.parent),
        lambda: order_of(["true"], cwd=file.parent),
        lambda: order_of(["true"], file=file, cwd=file.parent, sets=["agent=b"]),
    ):
        with pytest.raises(NotTrusted, match="touch x"):
            start()
    assert not (file.parent / "x").exists()
    order_of(["true"], file=file, cwd=file.parent, trust=Trust(is_given=True))
    with pytest.raises(NotTrusted):  # it was given for one time
        policy_of(file)


def test_words_of_the_caller_are_the_callers_own(file: Path) -> None:
    check_trust(load(file.read_text()))
    with Sandbox.create(file, trust=True, secrets={}, network={"mode": "none"}) as box:
        assert box.commands.run("echo fine").stdout == "fine\n"


def test_person_is_asked_once_and_again_when_the_requests_change(file: Path) -> None:
    person = Person(answer=True)
    policy_of(file, Trust(ask=person))
    policy_of(file, Trust(ask=person))
    policy_of(file)
    text = file.read_text()
    file.write_text("# a comment\n" + text.replace("stage: observe", "stage: draft"))
    policy_of(file)
    assert len(person.asked) == 1
    for other in ("command:touch y", "file:/etc/hostname"):
        file.write_text(text.replace("command:touch x", other))
        with pytest.raises(NotTrusted):
            policy_of(file)
    file.write_text(text)
    policy_of(file)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("to: [a.example]", "to: [b.example]"),
        ("network: {", "network: {hosts: {a.example: 192.0.2.1}, "),
        ("network: {", "network: {tls: {ca: ca.pem}, "),
    ],
)
def test_another_way_for_a_secret_is_another_request(file: Path, old: str, new: str) -> None:
    policy_of(file, Trust(ask=Person(answer=True)))
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(NotTrusted):
        policy_of(file)


def test_script_of_the_project_with_other_content_is_another_request(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    script = file.parent / "token.sh"
    script.write_text("echo one")
    file.write_text(file.read_text().replace("touch x", 'sh -c "exec ./token.sh a"'))
    policy_of(file, Trust(ask=Person(answer=True)))
    script.write_text("echo two")
    with pytest.raises(NotTrusted):
        policy_of(file)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python3 -m token_of", "token_of/__main__.py"),
        ("make -s token", "Makefile"),
        ('sh -c "cd /; npm run token"', "package.json"),
        ('sh -c "x=1;./token.sh|cat"', "token.sh"),
    ],
)
def test_program_that_a_command_only_implies_is_a_part_of_the_request(
    file: Path, monkeypatch: pytest.MonkeyPatch, command: str, name: str
) -> None:
    monkeypatch.chdir(file.parent)
    script = file.parent / name
    script.parent.mkdir(exist_ok=True)
    script.write_text("one")
    file.write_text(file.read_text().replace("touch x", command))
    policy_of(file, Trust(ask=Person(answer=True)))
    script.write_text("two")
    with pytest.raises(NotTrusted):
        policy_of(file)


def agreed_file(place: Path, command: str) -> Path:
    """A paddock file with this command, to which somebody agreed."""
    file = place / "paddock.yaml"
    place.mkdir(parents=True, exist_ok=True)
    words = json.dumps(shlex.split(command))
    secret = f"secrets: {{T: {{from: {{command: {words}}}, to: [a.example]}}}}\n"
    file.write_text(HEAD + NETWORK + secret)
    policy_of(file, Trust(ask=Person(answer=True)))
    policy_of(file)
    return file


def put(file: Path, text: str = "one") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_script_in_the_repository_around_the_file_is_a_part_of_the_request(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    script = put(tmp_path / "token.sh")
    file = agreed_file(tmp_path / "conf", "../token.sh")
    script.write_text("two")
    with pytest.raises(NotTrusted):
        policy_of(file)


def test_current_directory_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands start in the directory of the file: a script elsewhere is not what is run."""
    put(tmp_path / "project" / "token.sh")
    file = agreed_file(tmp_path / "project", "./token.sh")
    put(tmp_path / "elsewhere" / "token.sh", "another")
    for place in (tmp_path, tmp_path / "elsewhere", Path("/")):
        monkeypatch.chdir(place)
        policy_of(file)
    (tmp_path / "project" / "token.sh").write_text("two")
    with pytest.raises(NotTrusted):
        policy_of(file)


def test_relative_secret_file_is_the_one_beside_the_paddock_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "project"
    place.mkdir()
    monkeypatch.chdir(tmp_path)
    said = NETWORK + "secrets: {T: {from: 'file:key', to: [a.example]}}\n"
    assert texts(place, said) == [f"read the file {place}/key, for secret T, sent to a.example"]


CHANGED = [
    ("python3 ./tools", "tools/__main__.py"),
    ("python3 ./tools", "tools/sub/helper.py"),
    ("python3 tools/", "tools/__main__.py"),
    ("python3 ./tools/../tools", "tools/__main__.py"),
    ("python3.11 .", "__main__.py"),
    ("python3 ./token.py", "token.py"),
    ("python3 -m pkg.token", "pkg/token.py"),
    ("node .", "package.json"),
    ("node ./tools", "tools/index.js"),
    ("run-parts hooks", "hooks/10-token"),
    ("make -s -C mk token", "mk/Makefile"),
    ("make -s --directory=mk token", "mk/Makefile"),
    ("make -s -Cmk token", "mk/Makefile"),
    ("sh -c 'cd mk && make token'", "mk/Makefile"),
    ("npm --prefix web run token", "web/package.json"),
    ("""sh -c 'exec "$PWD/scripts/token.sh"'""", "scripts/token.sh"),
    ("sh -c '${PWD}/scripts/token.sh'", "scripts/token.sh"),
    ("sh -c '$(git rev-parse --show-toplevel)/scripts/token.sh'", "scripts/token.sh"),
    ("sh -c '`pwd`/scripts/token.sh'", "scripts/token.sh"),
    ("sh -c '$PWD/token.sh'", "token.sh"),
    ("sh -c './scripts/tok*.sh'", "scripts/token.sh"),
]


@pytest.mark.parametrize(("command", "name"), CHANGED)
def test_code_that_a_command_names_is_asked_about_again_when_it_changes(
    tmp_path: Path, command: str, name: str
) -> None:
    script = put(tmp_path / name)
    file = agreed_file(tmp_path, command)
    script.write_text("two")
    with pytest.raises(NotTrusted):
        policy_of(file)


@pytest.mark.parametrize("command", ["make -C .. token", "sh -c 'cd ..; make token'"])
def test_makefile_around_the_project_is_a_part_of_the_request(tmp_path: Path, command: str) -> None:
    (tmp_path / ".git").mkdir()
    makefile = put(tmp_path / "Makefile")
    file = agreed_file(tmp_path / "conf", command)
    put(tmp_path / "other.txt", "not named")
    policy_of(file)
    makefile.write_text("two")
    with pytest.raises(NotTrusted):
        policy_of(file)


def test_new_file_in_a_named_directory_is_asked_about(tmp_path: Path) -> None:
    put(tmp_path / "tools" / "__main__.py")
    file = agreed_file(tmp_path, "python3 ./tools")
    put(tmp_path / "tools" / "__pycache__" / "x.pyc")  # what Python leaves behind
    policy_of(file)
    put(tmp_path / "tools" / "json.py")
    with pytest.raises(NotTrusted):
        policy_of(file)


def test_words_of_a_program_that_tells_secrets_are_no_directories(tmp_path: Path) -> None:
    put(tmp_path / "auth" / "views.py")
    put(tmp_path / "gh" / "x.py")
    file = agreed_file(tmp_path, "gh auth token")
    put(tmp_path / "auth" / "views.py", "two")
    put(tmp_path / "gh" / "x.py", "two")
    policy_of(file)


def test_end_of_a_large_script_counts(tmp_path: Path) -> None:
    script = put(tmp_path / "big.sh", "#" * (17 << 20))
    file = agreed_file(tmp_path, "sh big.sh")
    with script.open("a") as end:
        end.write("\nid\n")
    with pytest.raises(NotTrusted):
        policy_of(file)


def test_directory_with_too_many_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = agreed_file(tmp_path, "python3 ./tools")
    monkeypatch.setattr("paddock.state.tool_config._paddock.MAX_FILES_IN_DIRECTORY", 3)
    for number in range(4):
        put(tmp_path / "tools" / f"{number}.py")
    with pytest.raises(NotTrusted, match=r"tools.*too many to agree"):
        policy_of(file, Trust(ask=Person(answer=True)))
    policy_of(file, Trust(is_given=True))


def test_script_does_not_hide_behind_many_words(tmp_path: Path) -> None:
    put(tmp_path / "token.sh")
    words = [f"$x{number}" + f"/{number}" * 800 for number in range(30)]
    command = shlex.join(["sh", "-c", "exec ./token.sh", *words])
    with pytest.raises(NotTrusted, match="too many words"):
        agreed_file(tmp_path, command)


@pytest.mark.parametrize("where", ["inside", "outside"])
def test_link_that_leads_elsewhere_is_asked_about(tmp_path: Path, where: str) -> None:
    place = tmp_path / "project"
    start = place if where == "inside" else tmp_path
    for name in ("first", "second"):
        put(start / name / "token.sh")
    (place / "tools").parent.mkdir(exist_ok=True)
    (place / "tools").symlink_to(start / "first")
    file = agreed_file(place, "tools/token.sh")
    (place / "tools").unlink()
    (place / "tools").symlink_to(start / "second")
    with pytest.raises(NotTrusted):
        policy_of(file)


def test_link_to_a_trusted_file_elsewhere_is_not_trusted(tmp_path: Path) -> None:
    """The commands of the file would run the scripts beside the link."""
    own = agreed_file(tmp_path / "own", "pass show token")
    link = tmp_path / "clone" / "paddock.yaml"
    link.parent.mkdir()
    link.symlink_to(own)
    with pytest.raises(NotTrusted, match=r"clone/paddock\.yaml"):
        policy_of(link)
    policy_of(link, Trust(ask=Person(answer=True)))
    policy_of(link)
    assert TrustedFiles(Home.find()).revoke(os.path.realpath(own)) == 2
    with pytest.raises(NotTrusted):
        policy_of(link)


def test_no_is_not_kept(file: Path) -> None:
    person = Person(answer=False)
    for _ in range(2):
        with pytest.raises(NotTrusted):
            policy_of(file, Trust(ask=person))
    assert len(person.asked) == 2


def test_agreement_is_for_the_real_file(file: Path, tmp_path: Path) -> None:
    policy_of(file, Trust(ask=Person(answer=True)))
    link = tmp_path / "link.yaml"
    link.symlink_to(file)
    policy_of(link)
    copy = tmp_path / "copy.yaml"
    copy.write_text(file.read_text())
    with pytest.raises(NotTrusted):
        policy_of(copy)


def test_store_is_private_and_can_be_revoked(file: Path) -> None:
    policy_of(file, Trust(ask=Person(answer=True)))
    home = Home.find()
    assert stat.S_IMODE(os.stat(home.root / "trust.json").st_mode) == 0o600
    store = TrustedFiles(home)
    assert os.path.realpath(file) in [one.path for one in store.all()]
    assert store.revoke(os.path.realpath(file)) == 1
    with pytest.raises(NotTrusted):
        policy_of(file)


def test_control_characters_of_a_file_do_not_reach_the_terminal(file: Path) -> None:
    command = '{command: [echo, "\\e[2J\\e[1;1Hnothing to see"]}'
    file.write_text(file.read_text().replace("'command:touch x'", command))
    with pytest.raises(NotTrusted) as refused:
        policy_of(file)
    assert "\x1b" not in str(refused.value)


def test_command_of_the_caller_runs_where_the_caller_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the script of the same name that lies beside somebody else's file."""
    file = put(tmp_path / "project" / "paddock.yaml", HEAD + NETWORK)
    for name in ("project", "current"):
        put(tmp_path / name / "token.sh", f"echo the-value-of-{name}")
    monkeypatch.chdir(tmp_path / "current")
    words = {"secrets": {"T": {"from": "command:sh ./token.sh", "to": ["a.example"]}}}
    policy, _ = terms_of(file, words)
    assert load_secret(policy.secrets["T"], base=policy.terms.base) == "the-value-of-current"
