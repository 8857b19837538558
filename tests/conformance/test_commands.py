"""Commands in the foreground: what goes in, what comes back, and what is an error."""

from __future__ import annotations

import pytest

from cases import for_each
from conformance.conftest import MakeBox
from paddock import CommandExitException, CommandNotStarted, InvalidInput, Sandbox, SandboxError


def test_output_status_and_duration_come_back(shared_box: Sandbox) -> None:
    result = shared_box.commands.run("echo out; echo err >&2")
    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 0)
    assert result.duration_s > 0
    assert (result.killed_by, result.limits_hit, result.error) == (None, (), None)


def test_nonzero_status_raises_with_the_whole_result(shared_box: Sandbox) -> None:
    with pytest.raises(CommandExitException, match="exited with 3: bad") as caught:
        shared_box.commands.run("echo partial; echo bad >&2; exit 3")
    assert caught.value.exit_code == 3
    assert (caught.value.stdout, caught.value.stderr) == ("partial\n", "bad\n")
    assert caught.value.result.duration_s > 0


def test_text_goes_to_a_shell(shared_box: Sandbox) -> None:
    assert shared_box.commands.run("echo $((1+1)) | tr 2 3").stdout == "3\n"


def test_list_is_executed_without_a_shell(shared_box: Sandbox) -> None:
    words = ["$HOME", "a  b", "*", "", "; exit 9", "ünï"]
    program = "import sys; print(sys.argv[1:])"
    assert shared_box.commands.run(["python3", "-c", program, *words]).stdout == f"{words}\n"


def test_bytes_of_an_argument_that_are_not_utf8_arrive_as_they_are(shared_box: Sandbox) -> None:
    assert shared_box.commands.run(["printf", "%s", "caf\udce9"]).stdout_bytes == b"caf\xe9"


def test_envs_of_a_command_go_over_those_of_the_sandbox(make_box: MakeBox) -> None:
    box = make_box(envs={"A": "1", "B": "2"})
    assert box.commands.run("echo $A $B $C", envs={"B": "3", "C": "x y"}).stdout == "1 3 x y\n"
    assert box.commands.run("echo $A $B $C").stdout == "1 2\n"


def test_nothing_of_the_hosts_environment_is_inside(
    shared_box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PADDOCK_TEST_TOKEN", "visible")
    printed = shared_box.commands.run(["env"]).stdout
    assert "PADDOCK" not in printed
    assert "HOME=/home/user\n" in printed


def test_commands_start_in_the_home_directory(shared_box: Sandbox) -> None:
    assert shared_box.commands.run("pwd").stdout == "/home/user\n"


def test_cwd_may_be_absolute_or_below_the_home(shared_box: Sandbox) -> None:
    shared_box.files.make_dir("project/deep")
    assert shared_box.commands.run("pwd", cwd="/usr/lib").stdout == "/usr/lib\n"
    assert shared_box.commands.run("pwd", cwd="project/deep").stdout == "/home/user/project/deep\n"


@for_each(
    ("argv", "cwd", "exit_code", "code", "said"),
    [
        (
            ["no-such-program", "x"],
            None,
            127,
            "ENOENT",
            "no-such-program: there is no such program",
        ),
        (["/bin/no-such-program"], None, 127, "ENOENT", "/bin/no-such-program"),
        (["/home/user/plain"], None, 126, "EACCES", "/home/user/plain: it is not executable"),
        (["/usr"], None, 126, "EACCES", "/usr: it is not executable"),
        (["./odd"], None, 126, "ENOENT", "./odd is there, but the interpreter"),
        (["./empty"], None, 126, "ENOEXEC", "./empty: it is no program"),
        (["true"], "/no/such/place", 126, "ENOENT", "working directory /no/such/place"),
        (["true"], "plain", 126, "ENOTDIR", "working directory /home/user/plain"),
        (["/tmp"], "/tmp", 126, "EACCES", "/tmp: it is not executable"),
    ],
)
def test_program_that_cannot_be_started_is_an_error_with_a_code(
    shared_box: Sandbox, argv: list[str], cwd: str | None, exit_code: int, code: str, said: str
) -> None:
    shared_box.files.write("plain", "not a program")
    shared_box.files.write("odd", "#!/no/such/interpreter\n")
    shared_box.files.write("empty", "not a program")
    shared_box.commands.run("chmod +x odd empty")
    with pytest.raises(CommandNotStarted) as caught:
        shared_box.commands.run(argv, cwd=cwd)
    error = caught.value
    assert (error.program, error.exit_code, error.code) == (argv[0], exit_code, code)
    assert said in str(error)
    assert not isinstance(error, CommandExitException)


def test_missing_program_of_a_shell_text_is_the_shells_own_error(shared_box: Sandbox) -> None:
    with pytest.raises(CommandExitException) as caught:
        shared_box.commands.run("no-such-program")
    assert caught.value.exit_code == 127


def test_program_is_searched_on_the_path_of_the_command(shared_box: Sandbox) -> None:
    shared_box.files.write("tools/own-tool", "#!/bin/sh\necho mine\n")
    shared_box.commands.run("chmod +x tools/own-tool")
    result = shared_box.commands.run(["own-tool"], envs={"PATH": "/usr/bin:/home/user/tools"})
    assert result.stdout == "mine\n"


def test_output_that_is_not_utf8_is_replaced_in_text_and_exact_in_bytes(
    shared_box: Sandbox,
) -> None:
    result = shared_box.commands.run(r"printf '\377\376ok\0'; printf '\200' >&2")
    assert result.stdout == "\ufffd\ufffdok\0"
    assert (result.stdout_bytes, result.stderr_bytes) == (b"\xff\xfeok\x00", b"\x80")


@pytest.mark.parametrize("command", ["", "  \n", [], ["a\0b"], "echo a\0b", [b"ls"], 7, None])
def test_command_that_is_none_is_invalid_input(shared_box: Sandbox, command: object) -> None:
    with pytest.raises(InvalidInput, match="command"):
        shared_box.commands.run(command)  # type: ignore[call-overload]


def test_empty_program_name_is_an_error(shared_box: Sandbox) -> None:
    with pytest.raises((InvalidInput, SandboxError)):
        shared_box.commands.run([""])


def test_longest_possible_argument_arrives(shared_box: Sandbox) -> None:
    program = "import sys; print(len(sys.argv[1]))"
    longest = "x" * ((128 << 10) - 1)  # the kernel's limit for one, less its NUL
    assert shared_box.commands.run(["python3", "-c", program, longest]).stdout == "131071\n"


def test_many_long_arguments_just_under_the_limit_arrive(shared_box: Sandbox) -> None:
    program = "import sys; print(sum(map(len, sys.argv[1:])))"
    words = ["y" * 130_000] * 15
    assert shared_box.commands.run(["python3", "-c", program, *words]).stdout == "1950000\n"


@pytest.mark.parametrize("words", [["z" * (128 << 10)], ["z" * 130_000] * 17, ["z"] * 1_100_000])
def test_arguments_over_the_limit_are_invalid_input_with_a_way_out(
    shared_box: Sandbox, words: list[str]
) -> None:
    with pytest.raises(InvalidInput, match=r"command(.|\n)*stdin"):
        shared_box.commands.run(["true", *words])


def test_arguments_that_only_the_kernel_finds_too_long_are_an_error(shared_box: Sandbox) -> None:
    with pytest.raises(SandboxError, match="Argument list too long"):
        # All of it fits, but not with the pointers to it.
        shared_box.commands.run(["true", *["w" * 131_071] * 15, "w" * 131_050])


@pytest.mark.parametrize(("name", "number"), [("KILL", 9), ("TERM", 15), ("SEGV", 11)])
def test_end_by_a_signal_is_128_and_its_number(shared_box: Sandbox, name: str, number: int) -> None:
    with pytest.raises(CommandExitException) as caught:
        shared_box.commands.run(["sh", "-c", f"kill -{name} $$"])
    assert caught.value.exit_code == 128 + number
    assert caught.value.killed_by is None
