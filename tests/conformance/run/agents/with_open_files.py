"""Does a random choice of things to files, most of which it holds open, and asks the model between.

`python with_open_files.py SEED ROUNDS`: the seed chooses. At its end it reads everything back
through what it holds, and writes that down in `result.json`.
"""

# ruff: noqa: SIM115 (to hold files open is what it is for)

import json
import mmap
import os
import random
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import witness  # noqa: F401 (it does its work at the end)

from wire import ask

MODES = ("wal", "delete", "truncate", "persist", "memory", "off")
# A program that appends what it is told to a file that it holds open, and says when it is done.
SCRIBE = """
import sys
with open(sys.argv[1], "a", buffering=1) as file:
    for line in sys.stdin:
        file.write(line)
        file.flush()
        print("ok", flush=True)
"""
# A program that goes at its own pace, and opens its file for each line.
RUNNER = """
import sys, time
for n in range(int(sys.argv[2])):
    with open(sys.argv[1], "a") as file:
        file.write(f"{n}\\n")
    time.sleep(0.02)
"""


class Agent:
    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.has_programs = seed % 2 == 1  # what a fork does depends on whether there are others
        self.names = iter(range(10**6))
        self.logs, self.databases, self.maps, self.scribes, self.runners = [], [], [], [], []
        self.unnamed = []

    def name(self, suffix):
        return f"{next(self.names)}{suffix}"

    def act(self):
        can = [self.write, self.volatile_log, self.log, self.database, self.map]
        can += [self.rename, self.remove, self.unlinked, self.replace, self.directory, self.link]
        can += [self.insert, self.insert, self.append, self.append, self.append, self.scribble]
        can += [self.begin, self.volatile_file]
        if self.has_programs:
            can += [self.runner, self.scribe]
        self.chance.choice(can)()

    # Files that nobody holds.

    def write(self):
        Path(self.name(".txt")).write_bytes(self.chance.randbytes(self.chance.randrange(5000)))

    def volatile_file(self):
        Path(self.name(".stamp")).write_text("x" * (time.time_ns() % 100))

    def closed(self):
        return sorted(p for p in Path().glob("*.txt") if p.is_file())

    def rename(self):
        if found := self.closed():
            self.chance.choice(found).rename(self.name(".txt"))

    def remove(self):
        if found := self.closed():
            self.chance.choice(found).unlink()

    def link(self):
        if found := self.closed():
            one = self.chance.choice(found)
            self.chance.choice([os.link, os.symlink])(one, self.name(".link"))
            one.chmod(self.chance.choice([0o600, 0o644, 0o755]))

    def directory(self):
        place = Path(self.name(".d"))
        (place / "deep").mkdir(parents=True)
        (place / "deep" / "file").write_text("in a directory")
        if self.chance.random() < 0.5:
            place.rename(self.name(".moved"))

    # Files that it holds.

    def log(self):
        name = self.name(".log")
        self.logs.append((name, open(name, self.chance.choice(["w", "a", "w+"]))))

    def volatile_log(self):
        """Lines whose length is another one in each run."""
        name = self.name(".times")
        self.logs.append((name, open(name, self.chance.choice(["w", "a", "w+"]))))

    def append(self):
        for at, (name, log) in enumerate(self.logs):
            noise = "t" * (time.time_ns() % 50) if name.endswith(".times") else ""
            log.write(f"{at}:{next(self.names)}:{noise}\n")
            if self.chance.random() < 0.7:
                log.flush()

    def replace(self):
        """A new file takes the name of one that stays open."""
        if self.logs:
            name, _ = self.chance.choice(self.logs)
            new = Path(self.name(".new"))
            new.write_text("instead\n")
            new.rename(f"{name}.instead" if self.chance.random() < 0.5 else name)

    def unlinked(self):
        name = self.name(".gone")
        file = open(name, "w+")
        file.write(f"nobody else sees {name}")
        file.flush()
        Path(name).unlink()
        self.unnamed.append(file)

    def map(self):
        name = self.name(".map")
        with open(name, "w+b") as file:
            file.truncate(8192)
            self.maps.append(mmap.mmap(file.fileno(), 8192))

    def scribble(self):
        for one in self.maps:
            at = self.chance.randrange(8000)
            one[at : at + 5] = b"%05d" % next(self.names)

    # Databases, with the connection open.

    def database(self):
        mode = self.chance.choice(MODES)
        name = self.name(f"-{mode}.db")
        connection = sqlite3.connect(name, isolation_level=None)
        connection.execute(f"pragma journal_mode={mode}")
        connection.execute("create table t (n integer, text text)")
        self.databases.append((name, connection))

    def begin(self):
        """A transaction that stays open over some questions."""
        for _, connection in self.databases:
            if not connection.in_transaction:
                connection.execute("begin immediate")

    def insert(self):
        for _, connection in self.databases:
            n = next(self.names)
            connection.execute("insert into t values (?, ?)", (n, "row " * (n % 400)))
            if connection.in_transaction and self.chance.random() < 0.5:
                connection.execute("commit")

    # Other processes.

    def scribe(self):
        if self.scribes and self.chance.random() < 0.7:
            for one in self.scribes:
                one.stdin.write(f"{next(self.names)}\n")
                one.stdin.flush()
                one.stdout.readline()
        elif len(self.scribes) < 2:
            words = [sys.executable, "-c", SCRIBE, self.name(".scribe")]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            self.scribes.append(subprocess.Popen(words, text=True, **pipes))

    def runner(self):
        if len(self.runners) < 2:
            words = [sys.executable, "-c", RUNNER, self.name(".runner"), "12"]
            self.runners.append(subprocess.Popen(words))

    def end(self):
        for one in self.scribes:
            one.stdin.close()
            one.wait()
        for one in self.runners:
            one.wait()
        found = {}
        for name, connection in self.databases:
            if connection.in_transaction:
                connection.execute("commit")
            found[name] = connection.execute("select n, length(text) from t").fetchall()
            if self.chance.random() < 0.5:
                connection.close()
        for name, log in self.logs:
            log.flush()
            found[name] = "written"
        for at, file in enumerate(self.unnamed):
            file.seek(0)
            found[f"unnamed {at}"] = file.read()
        for at, one in enumerate(self.maps):
            found[f"map {at}"] = one[:].strip(b"\0").decode("latin-1")
            if self.chance.random() < 0.5:
                one.close()
        Path("result.json").write_text(json.dumps(found))


def main():
    seed, rounds = int(sys.argv[1]), int(sys.argv[2])
    agent = Agent(seed)
    for number in range(rounds):
        for _ in range(agent.chance.randrange(1, 6)):
            agent.act()
        ask(f"round {number}")
    agent.end()


main()
