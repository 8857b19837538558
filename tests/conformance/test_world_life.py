"""A world through the life of its sandbox: other terms, forks, other processes, lost files."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from conformance.conftest import MakeBox
from conformance.test_world import CUSTOMER, PAY, STRIPE, inside, steps
from conformance.waiting import eventually
from paddock import InvalidInput
from paddock.journal.log import RunLog
from paddock.model.events import Closed, WorldEnded
from paddock.state.home import Home


def test_other_terms_of_the_network_leave_the_stand_ins_where_they_are(make_box: MakeBox) -> None:
    box = make_box(world=STRIPE)
    box.update_network(allow=["other.example:443"])
    assert inside(box, CUSTOMER) == "ada@example.com"
    assert "stand-ins answer for 1" in box.get_info().enforcement["network"]


def test_a_network_that_is_closed_later_closes_the_world_too(make_box: MakeBox) -> None:
    box = make_box(world=STRIPE)
    box.update_network(mode="none")
    done = box.commands.run("curl -s -m 20 https://api.stripe.com/v1/balance; echo $?")
    assert done.stdout.strip() != "0"
    assert box.get_info().enforcement["network"] == "none: only loopback"


def test_a_world_without_a_network_is_refused_from_python_as_from_a_file(
    make_box: MakeBox,
) -> None:
    with pytest.raises(InvalidInput, match="no stand-in can be reached"):
        make_box(world=STRIPE, network={"mode": "none"})


OTHER_PROCESS = """
import sys
from paddock import Conflict
from paddock import Sandbox
box = Sandbox.connect(sys.argv[1])
for call in (box.world_digest, box.world_changes, box.broken_invariants, box.reset_world):
    try:
        call()
    except Conflict as error:
        print("conflict")
"""


def test_the_world_of_another_process_says_where_it_can_be_looked_at(make_box: MakeBox) -> None:
    box = make_box(world=STRIPE)
    words = [sys.executable, "-c", OTHER_PROCESS, box.sandbox_id]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["conflict"] * 4, done.stderr


WRITER = """
import itertools, os
for n in itertools.count(1):
    with open("/home/user/next", "w") as file:  # a fork may come between truncation and writing
        file.write(str(n))
    os.replace("/home/user/next", "/home/user/count")
    call("/v1/customers", name=f"n{n}")
"""


def test_forks_have_the_files_and_the_world_of_one_moment(make_box: MakeBox) -> None:
    parent = make_box(world=STRIPE)
    parent.files.write("w.py", PAY + WRITER)
    writer = parent.commands.run("python3 w.py", background=True)
    eventually(lambda: len(parent.world_changes()["api.stripe.com"]) > 20, 30, "it writes")
    children = parent.fork(2)
    writer.kill()
    try:
        made = [
            [one.id for one in child.world_changes()["api.stripe.com"] if one.kind == "customers"]
            for child in children
        ]
        said = [int(child.files.read("/home/user/count")) for child in children]
        assert said[0] == said[1]
        assert made[0] == made[1]
        assert said[0] - 1 <= len(made[0]) <= said[0]  # the last one may be under way
    finally:
        for child in children:
            child.kill()


def test_a_run_whose_world_was_removed_still_ends_its_journal(make_box: MakeBox) -> None:
    box = make_box(world=STRIPE)
    inside(box, CUSTOMER)
    shutil.rmtree(Home.find().worlds / box.sandbox_id)
    box.kill()
    log = RunLog(Home.find().runs / box.sandbox_id)
    [ended] = (record.event for record in log.events(WorldEnded))
    assert isinstance(ended, WorldEnded) and "OperationalError" in (ended.error or "")
    [closed] = (record.event for record in log.events(Closed))
    assert isinstance(closed, Closed) and closed.ended_by is not None


SEND = """
import smtplib
mail = smtplib.SMTP("mail.example", 25, timeout=20)
mail.sendmail("a@x.example", ["b@y.example"], "Subject: hi\\n\\nhello")
mail.quit()
print("1")
"""


def test_what_a_connection_changed_names_its_step(make_box: MakeBox) -> None:
    box = make_box(world={"mail.example": "mail"})
    assert inside(box, SEND) == 1
    changed = {one.step for one in box.world_changes()["mail.example"]}
    assert changed == {one.number for one in steps(box, "connect")}
