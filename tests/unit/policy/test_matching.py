"""Which actions a rule meets: every field of every kind, and the ways around that were tried."""

from __future__ import annotations

from typing import Any

import pytest

from cases import for_each
from paddock.model.action import Action, Effect, Kind, Verdict
from paddock.policy.decide import Policy
from unit.policy.cases import file_action, http, policy_with, run


def blocks(match: str, **more: str) -> Policy:
    extra = "".join(f", {key}: {value}" for key, value in more.items())
    return policy_with(f"- {{id: x, match: {match}{extra}, decide: block}}")


def allows(match: str) -> Policy:
    return policy_with(f"- {{id: x, match: {match}, decide: allow}}")


def is_blocked(policy: Policy, action: Action) -> bool:
    return policy.decide(action).verdict is Verdict.BLOCK


# exec

PIP = "{kind: exec, program: pip}"


@for_each(
    "action",
    [
        run("/usr/bin/pip", "install"),
        run("/opt/copy/pip", "install"),
        run("./pip"),
        run("../bin/pip"),
        run("pip"),
        run("/usr/bin/p", real_path="/usr/bin/pip"),  # a link to it
        run("/usr/bin/pip", real_path="/usr/bin/pip3.11"),  # a link from it
        run("/bin/busybox", told="pip"),  # a program of many faces
        run("/bin/busybox", told="-pip"),
        run("/bin/busybox", told="/usr/local/bin/pip"),
        run("/usr/bin/pip", told="harmless"),
        run("/tmp/x", real_path="/tmp/x", same_as=["/usr/bin/pip"]),  # a copy
        run("/tmp/x", same_as="/usr/bin/pip"),  # not a list: it cannot be told
    ],
)
def test_a_program_is_met_by_every_name_it_goes_by(action: Action) -> None:
    assert is_blocked(blocks(PIP), action)


@pytest.mark.parametrize("action", [run("/usr/bin/pip3"), run("/usr/bin/Pip"), run("/pip/x"),
                                    run("/bin/sh", "-c", "pip install x")])  # fmt: skip
def test_another_program_is_not_met(action: Action) -> None:
    # `sh -c 'pip …'` is met when the shell executes pip, not by what its words say.
    assert not is_blocked(blocks(PIP), action)


def test_a_program_can_be_named_by_its_path_or_a_glob() -> None:
    assert is_blocked(blocks("{kind: exec, program: /usr/bin/pip}"), run("/usr/bin/pip"))
    assert not is_blocked(blocks("{kind: exec, program: /usr/bin/pip}"), run("/opt/pip"))
    assert is_blocked(blocks("{kind: exec, program: 'pip*'}"), run("/opt/pip3.11"))
    assert is_blocked(blocks("{kind: exec, path: '/tmp/**'}"), run("/tmp/a/b"))
    assert is_blocked(blocks("{kind: exec, path: '/tmp/**'}"), run("/x", real_path="/tmp/b"))
    assert is_blocked(blocks("{kind: exec, path: '/tmp/**'}"), run("//tmp/./b"))


@for_each("field", ["path: /usr/bin/x", "program: /usr/bin/x"])
@for_each("program", ["bin/x", "../x", "/usr/lib/../bin/x", "/usr/./../x"])
def test_a_program_whose_path_cannot_be_told_is_blocked(field: str, program: str) -> None:
    policy = blocks(f"{{kind: exec, {field}}}")
    assert is_blocked(policy, run(program))
    assert is_blocked(policy, run(program, same_as=["/usr/bin/y"]))


def test_the_real_path_tells_what_a_relative_one_cannot() -> None:
    policy = blocks("{kind: exec, path: /usr/bin/x}")
    assert not is_blocked(policy, run("../y", real_path="/usr/bin/y"))
    assert is_blocked(policy, run("../y", real_path="/usr/bin/x"))


@for_each(
    ("pattern", "words", "is_met"),
    [
        ("[git, push]", ["push", "origin"], True),
        ("[git, push]", ["push"], True),
        ("[git, push]", ["-C", "/x", "push"], False),
        ("[git, '**', push]", ["-C", "/x", "push"], True),
        ("[git, '**', '--force*']", ["push", "--force-with-lease"], True),
        ("[git, '*', push]", ["push"], False),
        ("[[git, push], [git, fetch]]", ["fetch"], True),
        ("git", ["log"], True),
        ("[git, '']", [""], True),
        ("[git, push]", [], False),
    ],
)
def test_words_are_compared_one_by_one(pattern: str, words: list[str], is_met: bool) -> None:
    policy = blocks(f"{{kind: exec, argv: {pattern}}}")
    assert is_blocked(policy, run("/usr/bin/git", *words)) is is_met


def test_the_first_word_is_the_program_whatever_it_was_told() -> None:
    policy = blocks("{kind: exec, argv: [git, push]}")
    assert is_blocked(policy, run("/usr/bin/git", "push", told="ls"))
    assert not is_blocked(policy, run("/usr/bin/ls", "push", told="git"))


@pytest.mark.parametrize("argv", [None, "git push", [1], ["git", None]])
def test_words_that_are_no_list_of_texts_are_blocked(argv: Any) -> None:
    action = Action(Kind.EXEC, "/bin/ls", {"program": "/bin/ls", "argv": argv}, is_contained=True)
    assert is_blocked(blocks("{kind: exec, argv: [git]}"), action)


def test_unless_makes_a_list_of_what_is_allowed() -> None:
    policy = blocks("{kind: exec}", unless="{program: [git, python3]}")
    assert not is_blocked(policy, run("/usr/bin/git"))
    assert is_blocked(policy, run("/usr/bin/curl"))
    assert is_blocked(policy, run("/usr/bin/curl", told="git"))
    assert is_blocked(policy, run("/tmp/git", real_path="/usr/bin/curl"))
    assert is_blocked(policy, run("/usr/bin/git", told="curl"))
    assert is_blocked(policy, run("/tmp/git", real_path="/tmp/git", same_as=["/usr/bin/curl"]))


def test_the_directory_can_be_matched() -> None:
    policy = blocks("{kind: exec, cwd: '/srv/**'}")
    action = run("/bin/ls")
    assert not is_blocked(policy, action)
    assert is_blocked(policy, Action(Kind.EXEC, "/bin/ls", {**action.arguments, "cwd": "/srv/a"},
                                     is_contained=True))  # fmt: skip


# file

SECRETS = "{kind: file, path: '/secrets/**'}"


@for_each(
    "action",
    [
        file_action("read", "/secrets/key"),
        file_action("list", "/secrets"),
        file_action("read", "//secrets/./key"),
        file_action("read", "/secrets/a/b/c"),
        file_action("rename", "/tmp/x", to="/secrets/x"),
        file_action("rename", "/secrets/x", to="/tmp/x"),
        file_action("read", "/tmp/../secrets/key"),
        file_action("read", "secrets/key"),
        file_action("read", ""),
        Action(Kind.FILE, "read", {"path": None}, is_contained=True),
        Action(Kind.FILE, "read", {}, is_contained=True),
    ],
)
def test_every_way_to_write_a_path_is_met_or_blocked(action: Action) -> None:
    assert is_blocked(blocks(SECRETS), action)


@pytest.mark.parametrize("path", ["/secret", "/secretsx", "/x/secrets/key", "/Secrets/key"])
def test_another_path_is_not_met(path: str) -> None:
    assert not is_blocked(blocks(SECRETS), file_action("read", path))


def test_a_grant_of_a_rename_needs_both_its_paths() -> None:
    policy = allows("{kind: file, path: '/a/**'}")

    def outside(**paths: str) -> Action:
        return Action(Kind.FILE, "rename", paths, Effect.READ)

    assert not is_blocked(policy, outside(path="/a/x", to="/a/y"))
    assert is_blocked(policy, outside(path="/a/x", to="/b/y"))
    assert is_blocked(policy, outside(path="/b/x", to="/a/y"))


def test_operations_are_told_apart() -> None:
    policy = blocks("{kind: file, operation: [write, remove]}")
    assert is_blocked(policy, file_action("write", "/x"))
    assert not is_blocked(policy, file_action("read", "/x"))


# http, connect, dns, model, code

API = allows("{kind: http, host: api.example.com, method: GET, path: '/v1/**'}")


@pytest.mark.parametrize("host", ["api.example.com", "API.Example.COM", "api.example.com."])
def test_a_host_is_the_same_in_any_case_and_with_its_root_dot(host: str) -> None:
    assert not is_blocked(API, http(host, path="/v1/x"))


@for_each(
    "host",
    ["example.com", "xapi.example.com", "api.example.com.evil.test", "api.example.comx",
     "evil.test/api.example.com", "api.example.com@evil.test", "api-example.com", "", 3, None,
     "api.example.com#", "api.example.com ", "api.example.com\n", "api.example.com:443"],
)  # fmt: skip
def test_a_host_that_only_looks_alike_is_another(host: Any) -> None:
    assert is_blocked(API, http(host, path="/v1/x"))


@for_each(
    "path",
    ["/v2/x", "/v1x", "v1/x", "/v1/../admin", "/v1/%2e%2e/admin", "/v1/..%2fadmin", "/v1/%252e/x",
     "/v1//x", "/v1/./x", "/v1/\\..\\admin", "/v1/x\x00", "", None, "/v1/x;y=1",
     "/v1/%3b", "/v1/%ff",
     "/v1/a%0d%0aHost:x", "/v1/%C0%AE%C0%AE/x", "http://a.test/v1/x"],
)  # fmt: skip
def test_a_path_that_a_server_may_read_differently_is_blocked(path: Any) -> None:
    assert is_blocked(API, http("api.example.com", path=path))


OPEN = """
- {id: a, match: {kind: [http, connect, dns]}, decide: allow}
- {id: b, match: {kind: [http, connect], host: [evil.test, 127.0.0.1, "::1"]}, decide: block}
- {id: c, match: {kind: http, path: [/admin, "/admin/**"]}, decide: block}
- {id: d, match: {kind: http, method: [POST, DELETE]}, decide: block}
"""


@for_each(
    "host",
    ["evil.test", "EVIL.test.", "evil\N{FULLWIDTH FULL STOP}test",
     "\N{FULLWIDTH LATIN SMALL LETTER E}vil.test", "127.0.0.1", "127.1", "2130706433",
     "0x7f.0.0.1", "0x7f000001", "127.0.0.1.", "0177.0.0.1", "::1", "[::1]",
     "0:0:0:0:0:0:0:1", "::1%lo"],
)  # fmt: skip
def test_no_spelling_of_a_blocked_host_gets_through(host: str) -> None:
    policy = policy_with(OPEN)
    assert not is_blocked(policy, http("good.test"))
    assert is_blocked(policy, http(host))
    assert is_blocked(policy, Action(Kind.CONNECT, host, {"host": host, "port": 80}))


@for_each("path", ["/admin", "/%61dmin", "/%61%64min/x", "/admin/%2e%2e/x",
                                  "/admin;a", "/x/../admin", "/admin%2fx", "//admin",
                                  "/adm%69n"])  # fmt: skip
def test_no_spelling_of_a_blocked_path_gets_through(path: str) -> None:
    assert is_blocked(policy_with(OPEN), http("good.test", path=path))


@for_each("method", ["POST", "post", "Post", "POST ", " POST", "PO\tST", "", None])
def test_no_spelling_of_a_blocked_method_gets_through(method: Any) -> None:
    assert is_blocked(policy_with(OPEN), http("good.test", method=method))


def test_a_path_is_compared_as_it_is_decoded() -> None:
    policy = allows("{kind: http, path: '/caf\N{LATIN SMALL LETTER E WITH ACUTE}/a b'}")
    assert not is_blocked(policy, http("a.test", path="/caf%C3%A9/a%20b"))


def test_method_and_query_are_matched() -> None:
    assert is_blocked(API, http("api.example.com", "POST", "/v1/x"))
    policy = policy_with("""
- {id: a, match: {kind: http, host: a.test}, decide: allow}
- {id: b, match: {kind: http, query: 'admin=*'}, decide: block}
""")
    assert not is_blocked(policy, http("a.test", query="x=1"))
    assert is_blocked(policy, http("a.test", query="x=1&admin=1"))
    assert is_blocked(policy, http("a.test", query="x=1&%61dmin=1"))
    assert is_blocked(policy, http("a.test", query={"admin": ["0", "1"]}))
    assert is_blocked(policy, http("a.test", query="x=1;admin=1"))
    assert is_blocked(policy, http("a.test", query="x=1&admin"))


def test_a_grant_by_query_needs_every_pair_of_it() -> None:
    policy = allows("{kind: http, query: 'page=*'}")
    assert not is_blocked(policy, http("a.test", query="page=1&page=2"))
    assert is_blocked(policy, http("a.test", query="page=1&admin=1"))
    assert is_blocked(policy, http("a.test"))


def test_expressions_of_http_rules_read_the_request_by_its_names() -> None:
    policy = policy_with("""
- {id: a, match: {kind: http, host: a.test}, decide: allow}
- {id: b, match: {kind: http}, when: 'method == "POST" && body.amount > 10', decide: block}
""")
    assert not is_blocked(policy, http("a.test", "POST", body={"amount": 5}))
    assert is_blocked(policy, http("a.test", "POST", body={"amount": 50}))
    assert is_blocked(policy, http("a.test", "POST"))  # no body: it cannot be told
    assert not is_blocked(policy, http("a.test", "GET", body={}))


@pytest.mark.parametrize(("port", "is_allowed"), [(443, True), (8050, True), (8101, False),
                                                  ("443", False), (True, False)])  # fmt: skip
def test_ports_are_numbers_and_ranges(port: Any, is_allowed: bool) -> None:
    policy = allows("{kind: connect, host: '**.test', port: [443, 8000-8100]}")
    action = Action(Kind.CONNECT, "a.test", {"host": "a.test", "port": port})
    assert is_blocked(policy, action) is not is_allowed


def test_names_models_and_languages_are_matched_in_any_case() -> None:
    dns = allows("{kind: dns, name: '*.test'}")
    assert not is_blocked(dns, Action(Kind.DNS, "A.TEST", {"name": "A.TEST"}))
    assert is_blocked(dns, Action(Kind.DNS, "a.b.test", {"name": "a.b.test"}))
    model = allows("{kind: model, provider: acme, model: 'small-*'}")
    assert not is_blocked(model, Action(Kind.MODEL, "m", {"provider": "Acme", "model": "small-1"}))
    assert is_blocked(model, Action(Kind.MODEL, "m", {"provider": "acme", "model": "big"}))
    code = blocks("{kind: code, language: Bash}")
    assert is_blocked(code, Action(Kind.CODE, "bash", {"language": "bash"}, is_contained=True))
    assert not is_blocked(code, Action(Kind.CODE, "python", {"language": "python"},
                                       is_contained=True))  # fmt: skip


def test_one_rule_can_be_about_several_kinds() -> None:
    policy = allows("{kind: [http, connect], host: a.test}")
    assert not is_blocked(policy, http("a.test"))
    assert not is_blocked(policy, Action(Kind.CONNECT, "a.test", {"host": "a.test", "port": 1}))
    assert is_blocked(policy, Action(Kind.DNS, "a.test", {"name": "a.test"}))


def test_the_effect_of_a_tool_can_be_matched_as_it_was_computed() -> None:
    policy = policy_with(
        "- {id: x, match: {kind: tool, effect: write}, decide: block}",
        tools="{t: {effect: {write: args.n > 1, read: true}}}",
    )
    assert is_blocked(policy, Action(Kind.TOOL, "t", {"n": 2}))
    assert not is_blocked(policy, Action(Kind.TOOL, "t", {"n": 1}))
