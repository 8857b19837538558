"""The vocabulary of the journal: one class for each thing that a run can record.

A run is a list of records, and every record holds one event. Everything that Paddock reports about
a run (its summary, its steps, a comparison, a replay) is computed from these events and nothing
else. `journal.codec` turns an event into the bytes of a record and back; no other code knows how a
record is written.

How an action appears, in this order:

    Proposed   what the agent wants to do
    Decided    what policy says about it
    Asked      a person was asked, where policy wants that
    Answered   what the person said
    Settled    what came of it

These five, and everything else that belongs to one action, carry the number of its step in their
record. The remaining events describe the run as a whole.

Rules for changing this file: a field may be added if it has a default; a field is never renamed or
removed, because every journal that was ever written must still be read. An event is written without
the fields that have their default value. `TYPE` is the name of the event in the journal.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec

from paddock.model.action import Action, Decision, Effect, Kind, Outcome, RuleHit, Verdict

JsonObject = dict[str, Any]
# No writer writes a larger integer as a number, because canonical JSON has no exact spelling for
# it. A journal that has one anyway is not calculated with.
WholeNumber = Annotated[int, msgspec.Meta(ge=-(1 << 53), le=1 << 53)]
NaturalNumber = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """The base of all events."""

    TYPE: ClassVar[str]


# ---- the run as a whole --------------------------------------------------------------------------


class Lineage(msgspec.Struct, frozen=True, omit_defaults=True, rename={"options": "words"}):
    """Says which run this one replays or was forked from."""

    run: str = ""
    root: str = ""  # the first run of the family, whose key seals what is not shown
    at: WholeNumber | None = None  # of a fork: the step from which on it is live
    options: JsonObject = {}  # of a fork: what was changed


class Opened(Event, frozen=True):
    """The run begins. The first record of every journal."""

    TYPE: ClassVar = "opened"
    run: str
    agent: str
    format: WholeNumber | None = None  # set by the journal
    key_id: str = ""  # of the key that signs this journal
    public_key: str = ""
    paddock: str = ""  # the version that wrote it
    host: JsonObject = {}  # kernel, machine, Python
    kind: str | None = None  # run, replay, fork, exec, send; None for a sandbox of the SDK
    command: list[str] = []
    cwd: str | None = None
    project: str | None = None  # the directory that the run belongs to
    seed: str | None = None
    stage: str | None = None
    policy_digest: str | None = None
    lineage: Lineage | None = None
    sandbox: str | None = None
    parent: str | None = None  # the sandbox that this one was forked from
    template: str | None = None
    enforcement: dict[str, str] = {}  # by boundary: the mechanism that enforces it
    proved: dict[str, str] = {}  # by boundary: how it was seen to hold
    draft: str | None = None  # of a run that sends a draft


class PolicySource(msgspec.Struct, frozen=True, omit_defaults=True):
    """A policy as a journal stores it: enough to load it again."""

    text: str = ""
    base: str | None = None  # the directory that its paths are relative to
    name: str | None = None  # what it was made from, for people
    file: str | None = None  # the path of that file


class MountRecorded(msgspec.Struct, frozen=True, omit_defaults=True):
    """One mount of the sandbox, and why it is there."""

    source: str
    target: str
    mode: str
    why: str | None = None


class Configured(Event, frozen=True):
    """The conditions under which the agent starts: what a replay needs to start it again."""

    TYPE: ClassVar = "configured"
    envs: dict[str, str] = {}
    argv: list[str] = []
    cwd: str = ""
    mounts: list[MountRecorded] = []
    hidden: list[str] = []  # files that are kept from the agent
    policy: PolicySource = PolicySource()
    template: JsonObject = {}
    clock: str | None = None
    timeout_s: float | None = None
    given_envs: dict[str, str] = {}  # keyed hashes of the values that the caller gave
    own_envs: dict[str, str] = {}  # the values themselves; earlier versions stored them
    vary: list[str] = []  # what the paddock file lets vary in a replay
    beside: list[str] | None = None  # background traffic, where the paddock file declares it
    stdin: str | None = None
    stdin_base64: str | None = None


class BoundariesProved(Event, frozen=True):
    """What the self-test of the fence saw to hold in this run."""

    TYPE: ClassVar = "boundaries_proved"
    boundaries: dict[str, str] = {}


class PolicyChanged(Event, frozen=True):
    """Another policy is in force from the next action on."""

    TYPE: ClassVar = "policy_changed"
    policy_digest: str = ""


class TermsChanged(Event, frozen=True):
    """From step `at` on the run is under another policy. Replays and forks change it there too."""

    TYPE: ClassVar = "terms_changed"
    at: WholeNumber
    policy: PolicySource


class BudgetUsedUp(Event, frozen=True):
    """The storage budget of the run is used up: large values are recorded as digest and size."""

    TYPE: ClassVar = "budget_used_up"
    budget_bytes: WholeNumber = 0


class SecretRevoked(Event, frozen=True):
    """A secret was taken away from the running sandbox."""

    TYPE: ClassVar = "secret_revoked"
    secret: str


class ReportsDropped(Event, frozen=True):
    """The agent reported more marks, prompts and memory than a run accepts. Written once."""

    TYPE: ClassVar = "reports_dropped"


class InvalidCall(Event, frozen=True):
    """A call of a tool that could not become an action."""

    TYPE: ClassVar = "invalid_call"
    name: str
    why: str
    context: JsonObject = {}


class InternalError(Event, frozen=True):
    """Paddock itself failed at something. What it was about was refused."""

    TYPE: ClassVar = "internal_error"
    doing: str
    error: str | None = None


class Head(Event, frozen=True):
    """A signed tree head (RFC 9162) over all records before it."""

    TYPE: ClassVar = "head"
    run: str
    size: WholeNumber
    root: str
    at: WholeNumber
    key_id: str
    signature: str
    steps: WholeNumber | None = None
    steps_root: str | None = None


class Recovered(Event, frozen=True):
    """A journal whose writer was killed is continued; a torn end was cut off."""

    TYPE: ClassVar = "recovered"
    cut_bytes: WholeNumber = 0
    cut_sha256: str = ""
    segment: str = ""


class LeftOut(msgspec.Struct, frozen=True, omit_defaults=True):
    """How much the storage budget kept out of the journal."""

    values: WholeNumber = 0
    bytes: WholeNumber = 0


class Closed(Event, frozen=True):
    """The run has ended. Nothing but a head follows."""

    TYPE: ClassVar = "closed"
    ended_by: str | None = None
    left_out: LeftOut | None = None
    reason: str | None = None  # as earlier versions called `ended_by`


# ---- one action ----------------------------------------------------------------------------------


class Proposed(Event, frozen=True):
    """The agent wants to do something. The action as policy saw it."""

    TYPE: ClassVar = "proposed"
    kind: Kind
    name: str
    arguments: JsonObject
    effect: Effect
    is_reversible: bool
    is_contained: bool
    parent: WholeNumber | None = None  # the step that caused it
    context: JsonObject = {}
    keyed: dict[str, str] = {}  # keyed hashes of masked values, by their place

    @classmethod
    def of(cls, action: Action) -> Proposed:
        """Return the event that proposes this action."""
        return cls(
            action.kind,
            action.name,
            dict(action.arguments if action.recorded is None else action.recorded),
            action.effect,
            action.is_reversible,
            action.is_contained,
            action.parent,
            dict(action.context),
        )

    def action(self, step: int) -> Action:
        """Return the proposed action."""
        return Action(
            kind=self.kind,
            name=self.name,
            arguments=self.arguments,
            effect=self.effect,
            is_reversible=self.is_reversible,
            is_contained=self.is_contained,
            parent=self.parent,
            step=step,
            context=self.context,
        )


class RecordedSource(
    msgspec.Struct, frozen=True, omit_defaults=True, rename={"background": "beside"}
):
    """The recorded step that answers a step of a replay or fork."""

    run: str = ""
    step: WholeNumber = 0
    background: str | None = None  # the rule that made it background traffic


class Decided(Event, frozen=True, rename={"replayed_from": "again"}):
    """What policy says about the action. An action that was edited is decided again."""

    TYPE: ClassVar = "decided"
    verdict: Verdict
    decided_by: str
    why: str
    effect: Effect | None = None
    hits: tuple[RuleHit, ...] = ()
    is_draft: bool = False
    once_approved: Verdict | None = None  # what a yes means, or what was decided before a fault
    fault: JsonObject | None = None
    by_door: bool = False  # the door refused it by itself; no rule was asked
    replayed_from: RecordedSource | None = None

    @classmethod
    def of(cls, decision: Decision, *, by_door: bool = False) -> Decided:
        """Return the event for a decision. What a yes means is written only where it matters: for
        an action that is asked about, if it does not mean allow, and for one that a fault of the
        file struck."""
        is_struck = decision.verdict is Verdict.FAULT and "id" in (decision.fault or {})
        is_asked = decision.verdict is Verdict.ASK
        matters = is_struck or (is_asked and decision.once_approved is not Verdict.ALLOW)
        return cls(
            verdict=decision.verdict,
            decided_by=decision.decided_by,
            why=decision.why,
            effect=decision.effect,
            hits=decision.hits,
            is_draft=decision.is_draft,
            once_approved=decision.once_approved if matters else None,
            fault=None if decision.fault is None else dict(decision.fault),
            by_door=by_door,
        )

    @property
    def decision(self) -> Decision:
        """The decision that it records."""
        return Decision(
            verdict=self.verdict,
            decided_by=self.decided_by,
            why=self.why,
            effect=self.effect or Effect.ADMIN,
            hits=self.hits,
            is_draft=self.is_draft,
            fault=self.fault,
            once_approved=self.once_approved or Verdict.ALLOW,
        )


class Asked(Event, frozen=True):
    """A person was asked to approve the action."""

    TYPE: ClassVar = "asked"
    approval: str
    preview: Any  # what the action would do, where that can be computed beforehand
    digest: str | None = None  # of the action, the policy and the run: what a yes is bound to


class Answered(Event, frozen=True):
    """The person's answer, or that there was none in time."""

    TYPE: ClassVar = "answered"
    approval: str
    state: str = "unknown"  # approved, edited, denied, expired, withdrawn
    by: str | None = None
    reason: str | None = None
    waited_us: WholeNumber | None = None
    edited: JsonObject | None = None  # the arguments that the person wants instead


class Settled(Event, frozen=True):
    """What came of the action."""

    TYPE: ClassVar = "settled"
    outcome: Outcome
    result: Any
    error: str | None = None
    answered_by: str | None = None  # the person who approved it
    draft_id: str | None = None
    cost: JsonObject = {}


class RefusedAgain(Event, frozen=True):
    """The step was refused many more times in the same way. Such refusals are only counted."""

    TYPE: ClassVar = "refused_again"
    count: NaturalNumber
    first_at: NaturalNumber  # microseconds since 1970
    last_at: NaturalNumber

    def plus(self, other: RefusedAgain | None) -> RefusedAgain:
        """Return both counts together."""
        if other is None:
            return self
        first_at, last_at = min(self.first_at, other.first_at), max(self.last_at, other.last_at)
        return RefusedAgain(self.count + other.count, first_at, last_at)


# ---- what the fence saw --------------------------------------------------------------------------


class ProgramStarted(Event, frozen=True):
    """A program was executed inside the fence, whoever started it."""

    TYPE: ClassVar = "program_started"
    program: str
    argv: list[str] = []
    cwd: str = ""
    pid: WholeNumber | None = None
    parent: WholeNumber | None = None
    real_path: str | None = None  # where `program` leads to, if that is another file
    same_as: Any = None  # a protected program that the file is a copy of
    is_writable: bool | None = None


class ProgramEnded(Event, frozen=True):
    """A program inside the fence has ended."""

    TYPE: ClassVar = "program_ended"
    pid: WholeNumber | None = None
    parent: WholeNumber | None = None
    exit_code: WholeNumber | None = None
    duration_us: WholeNumber | None = None


class ProgramRefused(Event, frozen=True):
    """A program was refused because Paddock could not tell what it would run."""

    TYPE: ClassVar = "program_refused"
    program: str
    argv: list[str] = []
    error: str = ""


class Alert(Event, frozen=True):
    """Something that a person should look at. `about` has the details."""

    TYPE: ClassVar = "alert"
    alert: str
    times: WholeNumber  # how often since it was last written
    about: JsonObject = {}


# ---- state around a step -------------------------------------------------------------------------


class FilesRecorded(Event, frozen=True):
    """The writable files as they were when the step was proposed, or when the run ended."""

    TYPE: ClassVar = "files_recorded"
    tree: str  # the digest of the tree
    changed: WholeNumber
    is_cut: bool = False  # not all of it was stored
    is_last: bool = False
    unstored: WholeNumber = 0  # how many files were not stored, in journals of earlier versions


class FilesNotRecorded(Event, frozen=True):
    """The files at this step could not be read or stored."""

    TYPE: ClassVar = "files_not_recorded"
    error: str = ""


class WorldChanged(Event, frozen=True):
    """How far the stores of the stand-ins had come after the step."""

    TYPE: ClassVar = "world_changed"
    positions: dict[str, WholeNumber]


class WorldReset(Event, frozen=True):
    """The stand-ins were put back to their seed."""

    TYPE: ClassVar = "world_reset"


class WorldEnded(Event, frozen=True):
    """The state of the world at the end of the run, with the invariants that do not hold."""

    TYPE: ClassVar = "world_ended"
    digest: str | None = None
    positions: dict[str, WholeNumber] = {}
    changes: dict[str, WholeNumber] = {}  # by stand-in
    broken: dict[str, list[str]] = {}  # by stand-in: invariants
    error: str | None = None


# ---- what the agent reports about itself ---------------------------------------------------------


class PromptReported(Event, frozen=True):
    """The agent says which version of its prompt is in use from here on."""

    TYPE: ClassVar = "prompt_reported"
    version: str
    text: str | None = None
    sha256: str | None = None


class Marked(Event, frozen=True):
    """A mark that the agent left beside its step."""

    TYPE: ClassVar = "marked"
    text: str
    data: JsonObject | None = None


class MemoryChanged(Event, frozen=True):
    """The agent stored or removed a value in its memory."""

    TYPE: ClassVar = "memory_changed"
    name: str
    value: Any = None
    sha256: str | None = None
    is_removed: bool = False


# ---- replay and fork -----------------------------------------------------------------------------


class ReplayRepeated(Event, frozen=True):
    """Something came again that the recorded run had as one step, such as a DNS query."""

    TYPE: ClassVar = "replay_repeated"
    kind: Kind
    name: str


class BackgroundAnswered(Event, frozen=True, rename={"replayed_from": "again"}):
    """Background traffic that has no step of its own was answered."""

    TYPE: ClassVar = "background_answered"
    kind: Kind
    name: str
    outcome: Outcome = Outcome.DONE
    replayed_from: RecordedSource | None = None
    method: str | None = None
    host: str | None = None
    port: WholeNumber | None = None
    path: str | None = None
    type: str | None = None
    body_bytes: WholeNumber | None = None
    body_sha256: str | None = None


class BackgroundCounted(Event, frozen=True):
    """How much background traffic there was beside the replayed steps, by rule."""

    TYPE: ClassVar = "background_counted"
    rules: dict[str, WholeNumber] = {}
    steps: WholeNumber = 0
    without_step: WholeNumber = 0
    left_out: WholeNumber = 0


class Varied(Event, frozen=True):
    """Fields that differed in matching steps and may do so, with how often."""

    TYPE: ClassVar = "varied"
    fields: dict[str, WholeNumber] = {}


class Diverged(Event, frozen=True):
    """The agent did something else than the recorded run. The first divergence is what counts."""

    TYPE: ClassVar = "diverged"
    kind: str
    differences: list[JsonObject] = []
    step: WholeNumber | None = None
    recorded: JsonObject | None = None
    proposed: JsonObject | None = None


class WentLive(Event, frozen=True):
    """The recorded past of a fork is over; from here on actions are real."""

    TYPE: ClassVar = "went_live"
    at: WholeNumber
    policy_digest: str = ""
    files_restored: WholeNumber = 0
    # Files that programs hold open and that differ from the recorded ones.
    files_kept: WholeNumber = 0
    kept: list[str] = []  # some of them


class ForkRefused(Event, frozen=True):
    """A fork could not go live at its step."""

    TYPE: ClassVar = "fork_refused"
    at: WholeNumber
    why: str = ""
    instead: WholeNumber | None = None  # the nearest step at which it can


# ---- what this version does not know -------------------------------------------------------------


class Unknown(Event, frozen=True):
    """An event that this version does not know, or whose body is not what it should be. It is
    shown as such and never acted on."""

    TYPE: ClassVar = "unknown"
    type: str
    body: JsonObject


RunEvent = (
    Opened | Configured | BoundariesProved | PolicyChanged | TermsChanged | BudgetUsedUp
    | SecretRevoked | ReportsDropped | InvalidCall | InternalError | Head | Recovered | Closed
)  # fmt: skip
ActionEvent = Proposed | Decided | Asked | Answered | Settled | RefusedAgain
FenceEvent = ProgramStarted | ProgramEnded | ProgramRefused | Alert
StateEvent = FilesRecorded | FilesNotRecorded | WorldChanged | WorldReset | WorldEnded
AgentEvent = PromptReported | Marked | MemoryChanged
ReplayEvent = (
    ReplayRepeated | BackgroundAnswered | BackgroundCounted | Varied | Diverged | WentLive
    | ForkRefused
)  # fmt: skip
AnyEvent = (
    RunEvent | ActionEvent | FenceEvent | StateEvent | AgentEvent | ReplayEvent | Unknown
)  # fmt: skip


class BlobRef(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Says which value of an event was stored as a blob. Its preview stands in the event."""

    path: str  # a JSON pointer into the event
    sha256: str
    size_bytes: int
    form: str  # text, json for a value that is not one string, bytes for a piece of a body
    is_kept: bool = True  # False: beyond the run's budget, only digest and size were kept


class EncodedEvent(msgspec.Struct, frozen=True):
    """An event as it stands in the journal, with previews in place of its large values."""

    type: str
    body: JsonObject


class Record(msgspec.Struct, frozen=True):
    """One event in its place in the journal."""

    n: int
    at: int  # microseconds since 1970
    step: int | None
    event: AnyEvent
    blobs: tuple[BlobRef, ...] = ()
    after: str = ""  # the hash of the record before it
    encoded: EncodedEvent | None = None  # only where values of the event are blobs

    @property
    def type(self) -> str:
        """The name of the event in the journal."""
        event = self.event
        return event.type if isinstance(event, Unknown) else event.TYPE

    @property
    def is_whole(self) -> bool:
        """Return whether all values of the event were stored."""
        return all(ref.is_kept for ref in self.blobs)
