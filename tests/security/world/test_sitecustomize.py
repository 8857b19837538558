"""What runs at the start of each Python inside: it must add one authority, and break nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from paddock import Sandbox
from security.attack import probe

ASK = """
import subprocess
def run(*words, **env):
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **env})
    return (done.stdout + done.stderr).strip()
own = os.environ["PYTHONPATH"]
get = '''
import urllib.error, urllib.request
try:
    urllib.request.urlopen("https://pay.example/v1/customers")
except urllib.error.HTTPError as error:
    print(error.code)
'''
roots = '''
import ssl
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
for words in ((), ("/nowhere",)):
    try:
        context.load_verify_locations(*words)
    except (TypeError, OSError):
        pass
print(len(context.get_ca_certs()))
context.load_verify_locations("/run/paddock/ca.pem")
print(len(context.get_ca_certs()), context.verify_mode.name, context.check_hostname)
'''
"""


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox.create(world={"pay.example": "payments"}) as made:
        yield made


def test_isolated_pythons_and_venvs_work_as_without_it(box: Sandbox) -> None:
    found = probe(box, ASK + """
for flag in ("-I", "-S", "-E", "-s", "-B"):
    found[flag] = run("python3", flag, "-c", get)
run("python3", "-m", "venv", "--without-pip", "/tmp/venv")
found["venv"] = run("/tmp/venv/bin/python", "-c", get)
""")  # fmt: skip
    assert set(found.values()) == {"401"}


def test_a_sitecustomize_of_the_agents_own_runs_as_well(box: Sandbox) -> None:
    found = probe(box, ASK + """
os.makedirs("/tmp/own", exist_ok=True)
open("/tmp/own/sitecustomize.py", "w").write("print('own')")
found["before"] = run("python3", "-c", get, PYTHONPATH="/tmp/own:" + own)
found["behind"] = run("python3", "-c", get, PYTHONPATH=own + ":/tmp/own")
open("/tmp/own/sitecustomize.py", "w").write("raise RuntimeError('own')")
found["raises"] = run("python3", "-c", get, PYTHONPATH=own + ":/tmp/own").partition("Error")[0]
""")  # fmt: skip
    assert found == {"before": "own\n401", "behind": "own\n401", "raises": "401\n"}


def test_it_adds_nothing_to_a_context_that_took_no_roots(box: Sandbox) -> None:
    found = probe(box, ASK + "found['it'] = run('python3', '-c', roots)")
    assert found["it"].split("\n") == ["0", "1 CERT_REQUIRED True"]


@pytest.mark.parametrize(
    "before",
    [
        "import importlib.util; importlib.util.find_spec('ssl')",
        "import ssl, importlib; importlib.reload(ssl)",
        "import threading; all = [threading.Thread(target=__import__, args=('ssl',)) for _ in "
        "range(20)]; [one.start() for one in all]; [one.join() for one in all]",
    ],
)
def test_packages_with_roots_of_their_own_trust_the_door_however_ssl_is_loaded(
    box: Sandbox, before: str
) -> None:
    program = f"""
other = '''
{before}
import glob, ssl
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.load_verify_locations(cadata=open("/tmp/other.pem").read())
print(len(context.get_ca_certs()))
'''
import re
text = open("/run/ca-certificates.crt").read()
door = open("/run/paddock/ca.pem").read()
known = re.findall("-----BEGIN CERT.*?END CERTIFICATE-----", text, re.S)
open("/tmp/other.pem", "w").write(next(one for one in known if one not in door) + chr(10))
found["it"] = run("python3", "-c", other)
"""
    assert probe(box, ASK + program)["it"] == "2"
