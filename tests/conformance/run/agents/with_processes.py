import multiprocessing
import subprocess
import sys

from wire import ask


def inside(name):
    return ask(f"a forked process asks: {name}")


if __name__ == "__main__":
    out = subprocess.run(
        ["sh", "-c", "echo one two three | tr ' ' '\\n' | sort -r | head -n 2"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    said = ask(out)
    child = "import sys; from wire import ask; print(ask('a child asks ' + sys.argv[1]))"
    for name in ("x", "y"):
        done = subprocess.run(
            [sys.executable, "-c", child, said[:10] + name],
            capture_output=True,
            text=True,
            check=True,
        )
        said = done.stdout
    with multiprocessing.get_context("fork").Pool(2) as pool:
        found = pool.map(inside, ["p", "q", "r"])
    missing = subprocess.run(["sh", "-c", "no-such-program; exit 7"], capture_output=True)
    print(ask(f"{sorted(found)[0][:10]} {missing.returncode}"))
