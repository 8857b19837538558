"""`paddock drafts send`: a call by the user's functions, a request by the network door's code; both
through the gate, in a run of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from paddock.cli.commands.drafts import draft_as_json
from paddock.cli.exit_codes import ExitCode
from paddock.cli.output import say_json, warn
from paddock.cli.policy_file import read_policy
from paddock.cli.trust_prompt import trust_from
from paddock.doors.trust import check_trust
from paddock.gate.drafts import Draft, Drafts, check_sendable, check_waiting, send
from paddock.gate.gate import Gate
from paddock.gate.run_gate import approvers_for, open_gate
from paddock.journal.errors import JournalBroken
from paddock.journal.plain_values import as_json
from paddock.model.action import Kind, Receipt, Stage
from paddock.model.errors import InvalidInput, NotFound
from paddock.model.events import Opened
from paddock.model.printable import printable
from paddock.policy.decide import Policy
from paddock.state.home import Home, new_id

_OPEN = ("draft", "sending")


class Sent(NamedTuple):
    """The outcome of sending one draft."""

    draft: Draft
    run: str
    receipt: Receipt

    def as_json(self) -> dict[str, Any]:
        receipt = self.receipt
        content = {**draft_as_json(self.draft), "sent_run": self.run}
        content |= {"outcome": receipt.outcome.value, "result": as_json(receipt.result)}
        return {**content, "error": receipt.error}


def send_one(drafts: Drafts, options: argparse.Namespace, by: str) -> int:
    sent = _send(drafts, drafts.get(options.id), options, by)
    if options.json:
        say_json(sent.as_json())
    return _report(sent, options)


def send_all(drafts: Drafts, options: argparse.Namespace, by: str) -> int:
    """Send all drafts of a run, in the order of their steps. Later ones may build on earlier ones:
    the first that is not sent is the last that is tried."""
    waiting = [draft for draft in drafts.all(run=options.all, state=None) if draft.state in _OPEN]
    if not waiting:
        raise NotFound(f"run {options.all!r} has no drafts that wait",
                       hint="paddock drafts list shows them")  # fmt: skip
    done: list[Sent] = []
    try:
        for draft in sorted(waiting, key=lambda draft: draft.step):
            done.append(_send(drafts, draft, options, by))
            if code := _report(done[-1], options):
                return code
    except BaseException:
        warn(f"{draft.draft_id} was not sent, nor what comes after it")
        raise
    finally:
        if options.json:
            say_json([sent.as_json() for sent in done])
    return 0


def _report(sent: Sent, options: argparse.Namespace) -> int:
    draft, receipt = sent.draft, sent.receipt
    if receipt.is_done:
        if not options.json:
            print(f"sent {draft.draft_id} (run {sent.run})")
        return 0
    is_draft = draft.state == "draft"
    then = "it is a draft again" if is_draft else f"it stays {draft.state}"
    why = printable(receipt.error or "")
    message = f"{draft.draft_id} not sent, {then}: {receipt.outcome.value}: {why}"
    hint = (
        f"\n  hint: look there whether it was; then paddock drafts discard --stuck {draft.draft_id}"
    )
    warn(f"{message}{'' if is_draft else hint}")
    return ExitCode.FAILED


def _send(drafts: Drafts, draft: Draft, options: argparse.Namespace, by: str) -> Sent:
    check_waiting(draft)
    if draft.action.kind is Kind.TOOL:
        return _send_call(drafts, draft, options, by)
    if draft.action.kind in (Kind.HTTP, Kind.MODEL):
        return _send_request(drafts, draft, _policy(options), by)
    raise InvalidInput(
        f"a draft of kind {draft.action.kind} cannot be sent from here",
        hint="only tools and requests can",
    )


def _send_call(drafts: Drafts, draft: Draft, options: argparse.Namespace, by: str) -> Sent:
    from paddock.cli.tool_functions import find_function, live

    if options.tools is None:
        what = f"draft {draft.draft_id} is a call of {draft.action.name!r}"
        raise InvalidInput(what, hint="name the module of the function with --tools")
    function = find_function(options.tools, draft.action)
    policy = _policy(options)
    check_sendable(draft, policy)  # before there is a run of it
    with _gate(draft, policy) as gate:
        receipt = asyncio.run(send(drafts, draft.draft_id, gate, live(function), by))
    return Sent(drafts.get(draft.draft_id), gate.run, receipt)


def _send_request(drafts: Drafts, draft: Draft, policy: Policy, by: str) -> Sent:
    from paddock.doors.network.drafts.delivery import (
        for_real,
        load_secrets,
        open_delivery,
        read_request,
        remake,
    )

    home, policy = Home.find(), for_real(policy)
    kept = read_request(draft, drafts, home, policy)
    with contextlib.closing(load_secrets(home, policy, kept.origin.host)) as keeper:
        remade = asyncio.run(remake(kept, draft, keeper, policy))
        check_sendable(draft, policy, remade.action)
        with _gate(draft, policy, keeper.masker_values()) as gate:

            async def carry_out() -> Receipt:
                with open_delivery(remade, gate, keeper) as live:
                    return await send(drafts, draft.draft_id, gate, live, by,
                                      action=remade.action, rebuild=remade.rebuild)  # fmt: skip

            receipt = asyncio.run(carry_out())
    return Sent(drafts.get(draft.draft_id), gate.run, receipt)


@contextlib.contextmanager
def _gate(draft: Draft, policy: Policy, secrets: dict[str, str] | None = None) -> Iterator[Gate]:
    """Open the gate of a run that is about this draft alone."""
    run = new_id()
    about = Opened(run=run, agent=policy.agent, kind="send", draft=draft.draft_id)
    approvers = approvers_for(policy)
    gate = open_gate(Home.find(), run, policy, about=about, secrets=secrets, approvers=approvers)
    try:
        yield gate
    finally:
        with contextlib.suppress(JournalBroken):  # the receipt says so
            gate.close()


def _policy(options: argparse.Namespace) -> Policy:
    path, stage = options.file, options.stage
    if stage is not None and stage not in list(Stage):
        stages = ", ".join(Stage)
        raise InvalidInput(f"--stage: {stage!r} is not a stage", hint=f"there are {stages}")
    if not path.exists():
        raise InvalidInput(f"{path} cannot be read", hint="name the paddock file with --file")
    policy = read_policy(path, stage)
    check_trust(policy, trust_from(options))
    return policy
