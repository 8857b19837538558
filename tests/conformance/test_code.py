"""Code in a stateful interpreter: results, logs, contexts."""

from __future__ import annotations

import base64

import pytest

from conformance.waiting import Calls
from paddock import InvalidInput, NotFound, Sandbox
from paddock.model.code import ExecutionError, OutputMessage, Result

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n not really a picture, nobody decodes it").decode()
SHOWN = f"""
import base64
class Shown:
    def _repr_png_(self): return base64.b64decode("{PIXEL}")
    def _repr_html_(self): return "<b>shown</b>"
    def _repr_json_(self): return {{"answer": [1, 2.5, None]}}
    def __repr__(self): return "Shown()"
Shown()
"""


def test_state_is_kept_between_cells(shared_box: Sandbox) -> None:
    shared_box.run_code("x = 41")
    assert shared_box.run_code("x + 1").text == "42"


def test_last_expression_is_the_main_result_and_statements_have_none(shared_box: Sandbox) -> None:
    execution = shared_box.run_code("y = [1, 2]\ny")
    assert execution.text == "[1, 2]"
    assert [r.is_main_result for r in execution.results] == [True]
    assert shared_box.run_code("z = 1").text is None
    assert shared_box.run_code("").error is None


def test_execution_count_rises(shared_box: Sandbox) -> None:
    first = shared_box.run_code("1").execution_count
    assert shared_box.run_code("1").execution_count == (first or 0) + 1


def test_rich_results_come_in_every_form(shared_box: Sandbox) -> None:
    result = shared_box.run_code(SHOWN).results[0]
    assert base64.b64decode(result.png or "") == base64.b64decode(PIXEL)
    assert result.html == "<b>shown</b>"
    assert result.json == {"answer": [1, 2.5, None]}
    assert result.text == "Shown()"
    assert {"png", "html", "json", "text"} <= set(result.formats())


def test_display_gives_results_beside_the_main_one(shared_box: Sandbox) -> None:
    execution = shared_box.run_code(
        "from IPython.display import HTML, display\ndisplay(HTML('<i>a</i>'))\n7"
    )
    assert [(r.html, r.is_main_result) for r in execution.results] == [
        ("<i>a</i>", False),
        (None, True),
    ]
    assert execution.text == "7"


def test_output_of_programs_and_prints_is_in_the_logs(shared_box: Sandbox) -> None:
    execution = shared_box.run_code(
        "import os, sys\nprint('one')\nos.system('echo two; echo bad >&2')\nprint('three')"
    )
    assert "".join(execution.logs.stdout) == "one\ntwo\nthree\n"
    assert "".join(execution.logs.stderr) == "bad\n"


def test_error_has_its_name_value_and_a_traceback_that_names_the_line(shared_box: Sandbox) -> None:
    execution = shared_box.run_code("print('before')\nvalue = 1\nvalue / 0")
    assert execution.error is not None
    assert (execution.error.name, execution.error.value) == (
        "ZeroDivisionError",
        "division by zero",
    )
    assert "value / 0" in execution.error.traceback
    assert "\x1b[" not in execution.error.traceback
    assert "".join(execution.logs.stdout) == "before\n"


def test_syntax_error_is_an_error_of_the_cell(shared_box: Sandbox) -> None:
    error = shared_box.run_code("def broken(:").error
    assert error is not None and error.name == "SyntaxError"


@pytest.mark.parametrize("call", ["import sys; sys.exit(3)", "exit()", "raise SystemExit"])
def test_exit_in_a_cell_is_not_the_end_of_the_state(shared_box: Sandbox, call: str) -> None:
    shared_box.run_code("kept = 'still here'")
    shared_box.run_code(call)
    assert shared_box.run_code("kept").text == "'still here'"


def test_input_fails_clearly_instead_of_waiting(shared_box: Sandbox) -> None:
    error = shared_box.run_code("input('name?')").error
    assert error is not None
    assert "no terminal" in error.value


def test_callbacks_hear_output_results_and_errors(shared_box: Sandbox) -> None:
    out: list[OutputMessage] = []
    err: list[OutputMessage] = []
    results: list[Result] = []
    errors: list[ExecutionError] = []
    shared_box.run_code(
        "import sys, time\n"
        "for i in range(3): print(i, flush=True); time.sleep(0.05)\n"
        "print('e', file=sys.stderr)\n"
        "display('shown')\n"
        "1/0",
        on_stdout=out.append,
        on_stderr=err.append,
        on_result=results.append,
        on_error=errors.append,
    )
    assert "".join(m.line for m in out) == "0\n1\n2\n"
    assert len(out) >= 2, "output must come while the cell runs, not all at its end"
    assert ["".join(m.line for m in err), err[0].error] == ["e\n", True]
    assert [r.text for r in results] == ["'shown'"]
    assert [e.name for e in errors] == ["ZeroDivisionError"]


def test_callback_may_call_the_sandbox(shared_box: Sandbox) -> None:
    seen: list[str] = []
    shared_box.run_code(
        "print('now')", on_stdout=lambda m: seen.append(shared_box.commands.run("echo hi").stdout)
    )
    assert seen == ["hi\n"]


def test_files_and_cwd_are_those_of_the_sandbox(shared_box: Sandbox) -> None:
    shared_box.files.write("data.csv", "1,2\n3,4\n")
    assert shared_box.run_code("open('data.csv').read()").text == repr("1,2\n3,4\n")
    assert shared_box.run_code("import os; os.getcwd()").text == repr("/home/user")


def test_contexts_have_states_of_their_own(shared_box: Sandbox) -> None:
    first, second = shared_box.create_code_context(), shared_box.create_code_context(cwd="/tmp")
    shared_box.run_code("v = 'first'", context=first)
    shared_box.run_code("v = 'second'", context=second.id)
    assert shared_box.run_code("v", context=first).text == "'first'"
    assert shared_box.run_code("import os; v, os.getcwd()", context=second).text == str(
        ("second", "/tmp")
    )
    assert shared_box.run_code("'v' in globals()").text == "False"
    shared_box.remove_code_context(first)
    with pytest.raises(NotFound, match=first.id):
        shared_box.run_code("v", context=first)
    assert shared_box.run_code("v", context=second).text == "'second'"


def test_contexts_run_at_the_same_time(shared_box: Sandbox) -> None:
    first, second = shared_box.create_code_context(), shared_box.create_code_context()
    meet = (
        "import os, time\n"
        "open('{own}', 'w').close()\n"
        "deadline = time.time() + 20\n"
        "while not os.path.exists('{other}') and time.time() < deadline: time.sleep(0.01)\n"
        "os.path.exists('{other}')"
    )
    calls = Calls(
        [
            lambda: shared_box.run_code(meet.format(own="a", other="b"), context=first).text,
            lambda: shared_box.run_code(meet.format(own="b", other="a"), context=second).text,
        ]
    )
    assert calls.results(40) == ["True", "True"]


def test_cells_of_one_context_run_one_after_the_other(shared_box: Sandbox) -> None:
    shared_box.run_code("total = 0")
    step = "before = total\nimport time; time.sleep(0.02)\ntotal = before + 1"
    Calls([lambda: shared_box.run_code(step) for _ in range(8)]).results(40)
    assert shared_box.run_code("total").text == "8"


def test_envs_of_a_context_and_of_a_cell(shared_box: Sandbox) -> None:
    context = shared_box.create_code_context(envs={"OF_CONTEXT": "1"})
    look = "import os; [os.environ.get(n) for n in ('OF_CONTEXT', 'OF_CELL')]"
    assert shared_box.run_code(look, context, envs={"OF_CELL": "2"}).text == "['1', '2']"
    assert shared_box.run_code(look, context).text == "['1', None]"


def test_unicode_and_large_results_survive(shared_box: Sandbox) -> None:
    assert shared_box.run_code("print('ü🐎')").logs.stdout == ("ü🐎\n",)
    execution = shared_box.run_code("print('x' * 3_000_000)\nprint('end')")
    assert len("".join(execution.logs.stdout)) == 3_000_005


def test_shell_and_magics_work(shared_box: Sandbox) -> None:
    assert "".join(shared_box.run_code("!echo from shell").logs.stdout).strip() == "from shell"
    assert "".join(shared_box.run_code("%%bash\necho $((6*7))").logs.stdout) == "42\n"


@pytest.mark.parametrize("code", [None, 7, b"1+1"])
def test_code_that_is_not_text_is_invalid(shared_box: Sandbox, code: object) -> None:
    with pytest.raises(InvalidInput, match="code"):
        shared_box.run_code(code)


def test_other_languages_are_refused_by_name(shared_box: Sandbox) -> None:
    with pytest.raises(InvalidInput, match="cobol"):
        shared_box.run_code("1", language="cobol")


def test_unknown_context_is_not_found(shared_box: Sandbox) -> None:
    with pytest.raises(NotFound, match="nobody"):
        shared_box.run_code("1", context="nobody")
