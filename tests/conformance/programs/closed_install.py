"""Run by test_closed_install with the Python of a closed installation, in a closed directory:
uses each kind of thing that a sandbox is given, and prints what came of it as JSON."""

import json
import sys
from pathlib import Path

from paddock import Sandbox, Volume

APP = """
async def app(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"app"})
"""
PROGRAM = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "7")
        self.end_headers()
        self.wfile.write(b"command")
http.server.HTTPServer(("127.0.0.1", 9000), Handler).serve_forever()
"""
FILE = """
version: 1
agent: tester
stage: observe
network: {allow: []}
world:
  app.example: {service: app, app: "own_app:app"}
  command.example: {service: command, run: [python3, own_program.py], port: 9000}
"""
ASK = "import urllib.request as u; print(u.urlopen('https://%s/').read().decode())"


def main() -> None:
    project = Path.cwd() / "project"
    project.mkdir()
    (project / "own_app.py").write_text(APP)
    (project / "own_program.py").write_text(PROGRAM)
    (project / "paddock.yaml").write_text(FILE)
    print(json.dumps({**plain(project), **world(project), **template()}))


def plain(project: Path) -> dict[str, str]:
    mount = {"source": str(project), "target": "/project", "mode": "overlay"}
    volume = Volume.create("data", quota="16MiB")
    found = {}
    data = {"volume": volume.name, "target": "/data", "mode": "write"}
    with Sandbox.create(mounts=[mount, data]) as box:
        found["mount"] = box.commands.run(
            "cat /project/paddock.yaml && echo x > /project/new"
        ).stdout
        found["volume"] = box.commands.run("echo kept > /data/f && cat /data/f").stdout
        found["code"] = "".join(box.run_code("print('cell')").logs.stdout)
        box.files.write("f", "snapshot")
        with Sandbox.create(snapshot=box.snapshot(), mounts=[mount]) as again:
            found["snapshot"] = str(again.files.read("f"))
        with box.fork() as fork:
            found["fork"] = str(fork.files.read("f"))
    return found


def world(project: Path) -> dict[str, str]:
    with Sandbox.create(policy=project / "paddock.yaml") as box:
        return {
            name: box.commands.run(["python3", "-c", ASK % f"{name}.example"], timeout=60).stdout
            for name in ("app", "command")
        }


def template() -> dict[str, str]:
    with Sandbox.create(template=f"dir:{sys.argv[1]}") as box:
        code = "".join(box.run_code("print('brought')").logs.stdout)
        return {"template": box.commands.run("cat /opt/data").stdout, "brought": code}


main()
