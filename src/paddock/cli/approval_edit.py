"""Checks an approver's edit when it is entered, in another process than the run that asked. The run
decides on it again in any case.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from paddock.gate.editing import check_decision, check_editable, check_fields
from paddock.gate.proposals import asked_action
from paddock.model.action import Action, Kind
from paddock.model.errors import InvalidInput

if TYPE_CHECKING:
    from paddock.gate.approvals import Approval, Approvals
    from paddock.policy.decide import Policy


def check_edit(approvals: Approvals, approval: Approval, arguments: Mapping[str, Any]) -> None:
    """Raises InvalidInput for an edit that could not be carried out, or that the terms of the run
    would block."""
    from paddock.gate.ledger import Accounts

    action = asked_action(approval)
    policy = approvals.policy_of(approval)
    check_fields(action.kind, action.arguments, arguments)
    edited = _rebuilt(action, arguments, policy)
    if policy is not None:
        accounts = Accounts(approvals.store, policy.agent, approval.run)
        check_decision(policy, accounts, action, edited)


def _rebuilt(action: Action, arguments: Mapping[str, Any], policy: Policy | None) -> Action:
    """As the door of the action would make it anew."""
    from msgspec.structs import replace

    if action.kind is Kind.MODEL:
        raise InvalidInput("A request to a model cannot be edited.")
    if action.kind is not Kind.HTTP:
        check_editable(action)
        return replace(action, arguments=arguments)
    from paddock.doors.network.request import rebuild_action, recorded_proposal

    network = None if policy is None else policy.network
    proposal = recorded_proposal(action, () if network is None else network.graphql)
    return rebuild_action(proposal, action, arguments)
