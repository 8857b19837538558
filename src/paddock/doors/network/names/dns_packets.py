"""DNS packets as values, by dnspython. Nothing is decided here, and nothing sent.

Loading this module takes a tenth of a second, so it is imported by the first question.
"""

from __future__ import annotations

import struct

import dns.message
import dns.name
import dns.rdatatype
import dns.rrset

from paddock.doors.network.names.dns import Code, DnsAnswer, DnsQuery

TTL_S = 60
NEGATIVE_TTL_S = 5  # what is refused may be allowed soon: the file can change while it runs
OUR_PAYLOAD = 1232  # what EDNS announces; every answer fits into 512 bytes, and none is cut
_HEADER = 12
_OPT = struct.Struct("!BHHBBHH")  # no owner, type, payload, code, version, flags, size of options
# Of the root, which every name is below: caches keep a "no" for as long as this record says.
_AUTHORITY = dns.rrset.from_text(
    ".", NEGATIVE_TTL_S, "IN", "SOA", f"paddock.invalid. . 1 3600 600 86400 {NEGATIVE_TTL_S}"
)


def read(packet: bytes) -> DnsQuery:
    """The question of a packet that has one. Raises ValueError, or whatever the library does."""
    message = dns.message.from_wire(packet, question_only=True)
    query = message.question[0]
    end = _HEADER + sum(len(label) + 1 for label in query.name.labels) + 4
    return DnsQuery(
        labels=query.name.labels[:-1],
        text=query.name.to_text(omit_final_dot=True),
        qtype=dns.rdatatype.to_text(query.rdtype),
        qclass=int(query.rdclass),
        edns_version=_edns_version(packet[end:]),
        message=message,
    )


def write(question: DnsQuery, answer: DnsAnswer) -> bytes:
    """The packet that answers it. The name stays as it was spelled: clients compare the case."""
    query = question.message
    reply = dns.message.make_response(query, recursion_available=True)
    if question.edns_version >= 0:
        reply.use_edns(0, payload=OUR_PAYLOAD)
    reply.set_rcode(answer.code)  # type: ignore[arg-type]
    records = _records(query.question[0].name, answer)
    reply.answer.extend(records)
    if not records and answer.code in (Code.NO_ERROR, Code.NO_SUCH_NAME):
        reply.authority.append(_AUTHORITY)
    return reply.to_wire()


def _records(owner: dns.name.Name, answer: DnsAnswer) -> list[dns.rrset.RRset]:
    if answer.address is not None:
        return [dns.rrset.from_text(owner, TTL_S, "IN", "A", answer.address)]
    if answer.name is not None:
        return [dns.rrset.from_text(owner, TTL_S, "IN", "PTR", f"{answer.name}.")]
    return []


def _edns_version(rest: bytes) -> int:
    """Return the EDNS version of the OPT record behind the question, or -1 without one. Its options
    are not parsed, because none is answered, and thousands of them fit into a packet."""
    if not rest:
        return -1
    owner, kind, _, _, version, _, size = _OPT.unpack_from(rest)
    if owner or kind != dns.rdatatype.OPT or len(rest) != _OPT.size + size:
        raise ValueError("there is something behind the question")
    return int(version)
