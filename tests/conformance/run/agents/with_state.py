import json
import os
import sqlite3

from wire import ask

base = sqlite3.connect("memory.db")
base.execute("CREATE TABLE IF NOT EXISTS said (n INTEGER PRIMARY KEY, text TEXT)")
for _ in range(4):
    rows = base.execute("SELECT text FROM said ORDER BY n").fetchall()
    with base:
        base.execute("INSERT INTO said (text) VALUES (?)", (ask(json.dumps(rows)[-200:]),))
os.makedirs("out/deep", exist_ok=True)
os.symlink("../deep", "out/link")
with open("out/deep/report.md", "w") as report:
    report.write("\n".join(text for (text,) in base.execute("SELECT text FROM said")))
os.rename("out/deep/report.md", "out/report.md")
os.remove("wire_extra.txt") if os.path.exists("wire_extra.txt") else None
print(ask(str(sorted(os.listdir("out")))))
