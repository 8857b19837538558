"""The reach of an agent: `network.allow`. No rule can widen it, so none is looked at."""

from __future__ import annotations

from paddock.model.action import Action, Effect, Kind
from paddock.model.hosts import bracketed
from paddock.policy.fields import host_of, port_of
from paddock.policy.globs import any_of, is_literal
from paddock.policy.network import Mode, NetworkTerms

NETWORK_KINDS = frozenset({Kind.HTTP, Kind.CONNECT, Kind.DNS, Kind.MODEL})


def refusal(network: NetworkTerms, action: Action) -> str | None:
    """Return why the network of the file does not reach so far, or None if it does. Raises
    Unmatchable."""
    if network.mode is Mode.NONE:
        return "The network is off: the file says mode: none."
    host = host_of(action)
    if action.kind is Kind.DNS:
        return None if network.covers_name(host) else f"{host} is not in network.allow."
    port = port_of(action)
    if network.covers(host, port) is not None:
        return None
    return f"{bracketed(host)}:{port} is not in network.allow."


def usually_reversible(kind: Kind, effect: Effect) -> bool:
    """Return what the network door says of an action of its own: what was sent cannot be called
    back."""
    return kind not in NETWORK_KINDS or effect is Effect.READ


def could_reach(network: NetworkTerms, pattern: str) -> bool:
    """Return whether some host that a rule's pattern means may be spoken to; True also means
    unknown."""
    if is_literal(pattern):
        return network.covers_name(pattern)
    means = any_of([pattern], ".")
    tail = "." + pattern.rpartition("*")[2].partition(".")[2]
    reached = (*network.stand_ins, *network.allow)
    for entry in reached if network.mode is not Mode.NONE else ():
        below = f".{entry.host.host}"
        if entry.host.is_wildcard and (below.endswith(tail) or tail.endswith(below)):
            return True
        if not entry.host.is_wildcard and means(entry.host.host):
            return True
    return False
