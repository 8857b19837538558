"""The code interpreter as its users see it: values, pictures, errors, state, surroundings."""

from __future__ import annotations

import base64
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from unit.fence.kernel_process import PYTHON, Kernel, shared_site


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared_site(tmp_path_factory)


@pytest.fixture
def kernel(site: Path, tmp_path: Path) -> Iterator[Kernel]:
    kernel = Kernel(site, tmp_path)
    yield kernel
    kernel.close()


def test_state_survives_from_cell_to_cell(kernel: Kernel) -> None:
    kernel.run("x = 41\ndef up(n): return n + 1")
    assert kernel.run("up(x)").text == "42"


def test_last_expression_is_the_main_result_and_the_cells_are_counted(kernel: Kernel) -> None:
    first, second = kernel.run("1; 2"), kernel.run("x = 3")
    assert [r.is_main_result for r in first.results] == [True]
    assert (first.text, second.text) == ("2", None)
    assert (first.execution_count, second.execution_count) == (1, 2)


def test_display_comes_between_the_lines_that_were_printed_around_it(kernel: Kernel) -> None:
    kernel.run("print('a')\ndisplay(1)\nprint('b')\ndisplay(2)\nprint('c')\n3")
    seen = [m.get("text") or m["data"]["text/plain"] for m in kernel.messages[:-1]]
    assert seen == ["a\n", "1", "b\n", "2", "c\n", "3"]


def test_repr_png_arrives_as_base64(kernel: Kernel) -> None:
    done = kernel.run("class P:\n def _repr_png_(self): return b'\\x89PNG\\r\\n'\nP()")
    assert base64.b64decode(done.results[0].png or "") == b"\x89PNG\r\n"


def test_every_known_format_and_custom_mime_types_arrive(kernel: Kernel) -> None:
    done = kernel.run(
        textwrap.dedent(
            """
            class All:
                def _repr_html_(self): return '<b>h</b>'
                def _repr_markdown_(self): return '*m*'
                def _repr_svg_(self): return '<svg/>'
                def _repr_jpeg_(self): return b'jpeg'
                def _repr_pdf_(self): return b'pdf'
                def _repr_latex_(self): return '$l$'
                def _repr_json_(self): return {'a': [1, 2.5, None]}
                def _repr_javascript_(self): return 'js()'
                def _repr_mimebundle_(self, include=None, exclude=None):
                    return {'application/vnd.me+json': {'k': 1}, 'audio/wav': b'RIFF'}
            All()
            """
        )
    )
    result = done.results[0]
    assert (result.html, result.markdown, result.svg) == ("<b>h</b>", "*m*", "<svg/>")
    assert (result.latex, result.javascript) == ("$l$", "js()")
    assert (result.jpeg, result.pdf) == ("anBlZw==", "cGRm")
    assert result.json == {"a": [1, 2.5, None]}
    assert result.extra == {"application/vnd.me+json": {"k": 1}, "audio/wav": "UklGRg=="}


def test_json_that_json_cannot_say_is_made_sayable(kernel: Kernel) -> None:
    done = kernel.run(
        "loop = []; loop.append(loop)\n"
        "value = {'nan': float('nan'), 'set': {1}, 2: b'x', 'big': 10**5000, 'loop': loop}\n"
        "display({'application/json': value}, raw=True)"
    )
    value = done.results[0].json
    assert (value["nan"], value["set"], value["2"]) == (None, [1], "eA==")
    assert done.error is None


def test_oversized_display_value_is_replaced_by_a_note(kernel: Kernel) -> None:
    done = kernel.run("display({'text/html': 'x' * (17 << 20), 'text/plain': 'small'}, raw=True)")
    assert done.results[0].html is None
    assert done.results[0].text is not None
    assert done.results[0].text.startswith("small\n[text/html left out: 17825794 bytes")


def test_oversized_structure_is_replaced_by_a_note(kernel: Kernel) -> None:
    done = kernel.run("display({'application/json': [[]] * 1_500_000}, raw=True)")
    assert done.results[0].json is None
    assert "application/json left out" in str(done.text or done.results[0].text)


def test_error_names_the_line_of_the_cell_without_colours(kernel: Kernel) -> None:
    kernel.run("def inner():\n    x = 1\n    return x / 0")
    error = kernel.run("a = 1\ninner()").error
    assert error is not None
    assert (error.name, error.value) == ("ZeroDivisionError", "division by zero")
    assert "Cell In[2], line 2" in error.traceback
    assert "Cell In[1], line 3, in inner()" in error.traceback
    assert "\x1b" not in error.traceback


def test_syntax_error_shows_the_line(kernel: Kernel) -> None:
    error = kernel.run("ok = 1\nif True print(2)").error
    assert error is not None
    assert error.name == "SyntaxError"
    assert "if True print(2)" in error.traceback
    assert kernel.run("1").text == "1"


def test_exception_group_is_an_error_like_any_other(kernel: Kernel) -> None:
    done = kernel.run("raise ExceptionGroup('many', [ValueError('one'), KeyError('two')])")
    assert done.error is not None
    assert done.error.name == "ExceptionGroup"
    assert "ValueError: one" in done.error.traceback
    assert done.logs.stderr == ()


@pytest.mark.parametrize(
    "body",
    ["def __str__(self): return 1/0", "def __str__(self): exit()", "def __len__(self): return 0"],
    ids=["text fails", "text exits", "false"],
)
def test_exception_that_misbehaves_is_still_an_error(kernel: Kernel, body: str) -> None:
    assert kernel.run(f"class E(Exception):\n {body}\nraise E").error is not None
    assert kernel.run("2").text == "2"


def test_failing_repr_goes_to_stderr_and_the_cell_succeeds(kernel: Kernel) -> None:
    done = kernel.run("class B:\n def _repr_html_(self): raise ValueError('bad')\nB()")
    assert done.error is None
    assert "ValueError: bad" in "".join(done.logs.stderr)
    assert done.text is not None


@pytest.mark.parametrize(
    ("code", "value"), [("sys.exit(3)", "3"), ("exit()", ""), ("quit(2)", "2")]
)
def test_leaving_is_an_error_and_not_the_end(kernel: Kernel, code: str, value: str) -> None:
    kernel.run("import sys; x = 5")
    done = kernel.run(code)
    assert done.error is not None
    assert (done.error.name, done.error.value) == ("SystemExit", value)
    assert done.logs.stderr == ()
    assert kernel.run("x").text == "5"


def test_top_level_await_works(kernel: Kernel) -> None:
    done = kernel.run("import asyncio\nawait asyncio.sleep(0.01)\nx = 7\nx")
    assert done.text == "7"
    assert kernel.run("asyncio.run(asyncio.sleep(0, 8))").text == "8"


def test_magics_and_shell_commands_work(kernel: Kernel) -> None:
    assert kernel.run("%%bash\necho $((40 + 2))").logs.stdout == ("42\n",)
    assert kernel.run("name = 'x'\n!echo got {name}; exit 3").logs.stdout == ("got x\n",)
    assert kernel.run("_exit_code").text == "3"
    assert kernel.run("lines = !printf 'a\\nb\\n'\nlines").text == "['a', 'b']"
    assert "per loop" in "".join(kernel.run("%timeit -n1 -r1 pass").logs.stdout)


def test_unknown_magic_is_an_error(kernel: Kernel) -> None:
    done = kernel.run("%nosuchmagic")
    assert done.error is not None
    assert done.error.name == "UsageError"


def test_input_says_that_no_terminal_is_attached(kernel: Kernel) -> None:
    error = kernel.run("input('name? ')").error
    assert error is not None
    assert "no terminal is attached" in error.value


def test_debugger_does_not_hang(kernel: Kernel) -> None:
    assert kernel.run("breakpoint()").error is not None
    assert kernel.run("1").text == "1"


def test_envs_and_cwd_hold_for_one_cell(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    ask = "import os\nprint(os.environ.get('A'), os.environ.get('HOME'), os.getcwd())"
    fields = {"envs": {"A": "1", "HOME": "/else"}, "cwd": str(tmp_path / "sub")}
    assert kernel.run(ask, **fields).logs.stdout == (f"1 /else {tmp_path}/sub\n",)
    assert kernel.run(ask).logs.stdout == (f"None {tmp_path} {tmp_path}\n",)


def test_missing_cwd_is_an_error_of_the_cell(kernel: Kernel) -> None:
    done = kernel.run("x = 1", cwd="/nonexistent")
    assert done.error is not None
    assert done.error.name == "FileNotFoundError"
    assert kernel.run("'x' in globals()").text == "False"


def test_modules_of_the_working_directory_and_fresh_installs_can_be_imported(
    kernel: Kernel, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text("value = 3")
    assert kernel.run("import mine; mine.value").text == "3"
    assert kernel.run("import added").error is not None
    user_site = kernel.run("import site; print(site.getusersitepackages())").logs.stdout[0].strip()
    Path(user_site).mkdir(parents=True)
    (Path(user_site) / "added.py").write_text("value = 4")
    assert kernel.run("import added; added.value").text == "4"


def test_cell_sees_nothing_of_how_the_kernel_was_started(kernel: Kernel) -> None:
    assert kernel.run("import sys; sys.argv").text == "['']"
    assert kernel.run("__name__, '__file__' in globals()").text == "('__main__', False)"


def test_home_stays_clean(site: Path, tmp_path: Path) -> None:
    home, scratch = tmp_path / "home", tmp_path / "scratch"
    home.mkdir()
    scratch.mkdir()
    kernel = Kernel(site, home, TMPDIR=str(scratch))
    kernel.run("1/0")
    kernel.run("x = 1")
    kernel.close()
    assert list(home.iterdir()) == []
    assert list(scratch.iterdir()) == []


def test_packages_of_the_sandbox_win_over_those_brought_along(site: Path, tmp_path: Path) -> None:
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "pexpect.py").write_text("mine = True")
    kernel = Kernel(site, tmp_path, PYTHONPATH=str(tmp_path / "packages"))
    assert kernel.run("import pexpect; pexpect.mine").text == "True"
    kernel.close()


def test_unfit_package_of_the_sandbox_does_not_stop_the_kernel(site: Path, tmp_path: Path) -> None:
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "traitlets.py").write_text("version = 'too old'")
    kernel = Kernel(site, tmp_path, PYTHONPATH=str(tmp_path / "packages"))
    assert kernel.run("40 + 2").text == "42"
    kernel.close()


def test_without_ipython_the_kernel_says_so_and_ends(tmp_path: Path) -> None:
    if subprocess.run([PYTHON, "-I", "-c", "import IPython"], capture_output=True).returncode == 0:
        pytest.skip(f"{PYTHON} has an IPython of its own")
    kernel = Kernel(tmp_path / "nothing", tmp_path)
    kernel.read_to_end()
    assert [(m["id"], m["name"]) for m in kernel.messages] == [(None, "KernelStartError")]
    assert "IPython" in kernel.messages[0]["value"]
    assert kernel.close() == 3


def test_matplotlib_is_pointed_at_the_inline_backend_only_while_it_loads(
    site: Path, tmp_path: Path
) -> None:
    (tmp_path / "packages").mkdir()
    package = tmp_path / "packages" / "matplotlib.py"
    package.write_text("import os\nbackend = os.environ.get('MPLBACKEND')")
    kernel = Kernel(site, tmp_path, PYTHONPATH=str(package.parent))
    assert "matplotlib_inline" in str(kernel.run("import matplotlib; matplotlib.backend").text)
    assert kernel.run("import os; 'MPLBACKEND' in os.environ").text == "False"
    kernel.close()


def test_open_figure_comes_out_as_png_without_show(kernel: Kernel) -> None:
    if kernel.run("import matplotlib").error is not None:
        pytest.skip(f"{PYTHON} has no matplotlib")
    done = kernel.run("import matplotlib.pyplot as plt\nplt.plot([1, 2]);")
    assert [r.formats() for r in done.results] == [["text", "png"]]
