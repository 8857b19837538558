"""The output limit: a flood is cut, named, and costs nobody else anything."""

from __future__ import annotations

import pytest

from conformance.conftest import MakeBox
from conformance.host import peak_memory
from conformance.waiting import result_of
from paddock import CommandExitException

MIB = 1 << 20


def test_output_flood_is_cut_at_the_limit_and_named(make_box: MakeBox) -> None:
    box = make_box(limits={"output": "1MiB"})
    with peak_memory() as peak, pytest.raises(CommandExitException, match="output limit") as caught:
        result_of(lambda: box.commands.run("yes"))
    assert caught.value.killed_by == "output"
    assert len(caught.value.stdout) == MIB
    assert peak.grown_bytes < 16 * MIB
    assert box.commands.run("echo usable").stdout == "usable\n"


def test_stdout_and_stderr_count_together(make_box: MakeBox) -> None:
    box = make_box(limits={"output": "1MiB"})
    with pytest.raises(CommandExitException) as caught:
        result_of(lambda: box.commands.run("yes & yes >&2"))
    assert caught.value.killed_by == "output"
    assert len(caught.value.stdout) + len(caught.value.stderr) == MIB


def test_flood_in_tiny_pieces_is_cut_too(make_box: MakeBox) -> None:
    box = make_box(limits={"output": 20_000})
    program = "import os\nwhile True: os.write(1, b'x')"
    with peak_memory() as peak, pytest.raises(CommandExitException) as caught:
        result_of(lambda: box.commands.run(["python3", "-c", program]))
    assert caught.value.killed_by == "output"
    assert len(caught.value.stdout) == 20_000
    assert peak.grown_bytes < 16 * MIB


def test_output_just_at_the_limit_is_no_fault(make_box: MakeBox) -> None:
    box = make_box(limits={"output": 20_000})
    result = box.commands.run("head -c 20000 /dev/zero")
    assert (len(result.stdout), result.killed_by) == (20_000, None)


def test_limit_counts_anew_for_every_command(make_box: MakeBox) -> None:
    box = make_box(limits={"output": 20_000})
    for _ in range(5):
        assert len(box.commands.run("head -c 15000 /dev/zero").stdout) == 15_000


def test_flood_leaves_other_commands_and_sandboxes_responsive(make_box: MakeBox) -> None:
    box, other = make_box(limits={"output": "300MiB"}), make_box()
    handle = box.commands.run("yes", background=True, on_stdout=lambda _: None)
    for number in range(10):
        assert box.commands.run(["echo", str(number)]).stdout == f"{number}\n"
        assert other.commands.run(["echo", str(number)]).stdout == f"{number}\n"
    handle.kill()


def test_terminal_may_print_more_than_the_limit(make_box: MakeBox) -> None:
    """What a terminal shows goes to its listener and is not kept."""
    box = make_box(limits={"output": "1MiB"})
    heard = 0

    def count(data: bytes) -> None:
        nonlocal heard
        heard += len(data)

    with peak_memory() as peak:
        box.pty.create(cmd=["head", "-c", "40000000", "/dev/zero"], on_data=count).wait(60)
    assert heard == 40_000_000
    assert peak.grown_bytes < 24 * MIB
