"""What tests ask a sandbox about itself, through the public API only."""

from __future__ import annotations

from paddock import Sandbox

_COMMAND_LINES = (
    "import os\n"
    "for name in os.listdir('/proc'):\n"
    "    if name.isdigit() and int(name) != os.getpid():\n"
    "        try:\n"
    "            words = open(f'/proc/{name}/cmdline', 'rb').read().split(b'\\0')\n"
    "        except OSError:\n"
    "            continue\n"
    "        print(b' '.join(words).decode('utf-8', 'replace').strip())\n"
)


def command_lines(box: Sandbox) -> list[str]:
    """The command line of every process inside but the one that looks."""
    return box.commands.run(["python3", "-c", _COMMAND_LINES]).stdout.splitlines()


def is_running(box: Sandbox, words: str) -> bool:
    """Whether a process with exactly this command line runs inside."""
    return words in command_lines(box)


def python(box: Sandbox, program: str, *arguments: str, **options: object) -> str:
    """Runs a Python program inside and gives what it printed."""
    result = box.commands.run(["python3", "-c", program, *arguments], **options)  # type: ignore[call-overload]
    printed: str = result.stdout
    return printed


def tree(box: Sandbox, top: str = ".") -> str:
    """Every path below `top` with its type, mode, size and digest, to compare two trees."""
    program = (
        "import hashlib, os, stat, sys\n"
        "os.chdir(sys.argv[1])\n"
        "for base, dirs, files in os.walk(b'.'):\n"
        "    dirs.sort()\n"
        "    for name in sorted(dirs + files):\n"
        "        path = os.path.join(base, name)\n"
        "        info = os.lstat(path)\n"
        "        what = oct(info.st_mode)\n"
        "        if stat.S_ISREG(info.st_mode):\n"
        "            what += ' ' + hashlib.sha256(open(path, 'rb').read()).hexdigest()\n"
        "            what += ' %d' % info.st_mtime_ns\n"
        "        elif stat.S_ISLNK(info.st_mode):\n"
        "            what += ' ' + repr(os.readlink(path))\n"
        "        print(repr(path), what)\n"
    )
    return python(box, program, top)
