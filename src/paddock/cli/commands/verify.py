"""`paddock verify`: checks a journal or a proof, offline, with the public key only. Ends with 0
when all of it is signed and the run has ended, with 7 when it is sound as far as it is signed and
the run has no end, with 1 when it is broken or not signed, with 2 when it could not be checked.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict, replace

from paddock.cli.exit_codes import ExitCode
from paddock.cli.output import pick, say, say_json, write_pieces
from paddock.cli.parser import CommandParser, command
from paddock.journal.integrity.findings import Status
from paddock.journal.run_directory import is_held
from paddock.model.errors import IntegrityError, InvalidInput, NotFound
from paddock.model.plural import many
from paddock.model.printable import printable

if TYPE_CHECKING:
    from paddock.journal.integrity.findings import VerifyReport
    from paddock.journal.integrity.keys import PublicKey
    from paddock.model.events import Head, Record

MAX_PROOF_BYTES = 256 << 20
_MAX_HEAD_BYTES = 64 << 10
_JOURNAL_BEGINS = b'{"after":"'
_EXIT_CODES = {
    Status.ENDED: ExitCode.DONE,
    Status.INTERRUPTED: ExitCode.INTERRUPTED,
    Status.BROKEN: ExitCode.FAILED,
}


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock verify", description=__doc__)
    parser.add_argument(
        "what",
        metavar="RUN|FILE",
        help="a run (an id, the beginning of one, `last`, or a path), an exported jsonl file,"
        " or a proof",
    )
    parser.add_argument(
        "--key", type=Path, metavar="FILE", help="the public key (default: this home's)"
    )
    parser.add_argument("--head", type=Path, metavar="FILE", help="a head that was saved earlier")
    parser.add_argument("--save-head", type=Path, metavar="FILE", help="save the last signed head")
    parser.add_flag("--closed", "the run has ended, so it has an end")
    parser.add_json()
    return parser


@command(make_parser)
def main(options: argparse.Namespace) -> int:
    place = _place(options.what)
    key = _key(options.key)
    if place.is_file() and not _is_journal(place):
        return _verify_proof(place, key, options)
    return _verify_journal(place, key, options)


def _place(word: str) -> Path:
    from paddock.cli.journals import find_journal

    try:
        return find_journal(word, may_be_file=True)
    except NotFound as error:  # that it is not there says nothing about whether it is intact
        raise InvalidInput(error.message, hint=error.hint) from None


def _key(path: Path | None) -> PublicKey:
    from paddock.journal.integrity.keys import PUBLIC_NAME, PublicKey

    if path is not None:
        return PublicKey.load(path)
    from paddock.state.home import Home

    ours = Home.find().keys / PUBLIC_NAME
    try:
        return PublicKey.load(ours)
    except InvalidInput as error:
        raise InvalidInput(error.message, hint="give the public key with --key FILE") from None


def _is_journal(path: Path) -> bool:
    """A file of records, and not a proof. An empty one is a journal that lost everything."""
    with open(path, "rb") as file:
        start = file.read(len(_JOURNAL_BEGINS))
    return not start or start == _JOURNAL_BEGINS


def _verify_journal(place: Path, key: PublicKey, options: argparse.Namespace) -> int:
    expected = None if options.head is None else _saved_head(options.head)
    report = _report(place, key, expected, is_closed=options.closed)
    if report.ok and options.save_head is not None:
        _save_head(report, options.save_head)
    _say_report(report, options, is_running=place.is_dir() and is_held(place))
    return _EXIT_CODES[report.status]


def _report(place: Path, key: PublicKey, expected: Head | None, *, is_closed: bool) -> VerifyReport:
    from paddock.gate.signed_journals import run_named
    from paddock.journal.integrity.verify import verify
    from paddock.state.home import Home

    return verify(
        place,
        key,
        expected_head=expected,
        expect_closed=is_closed,
        expected_run=run_named(place, Home.locate()) if place.is_dir() else None,
    )


def _saved_head(path: Path) -> Head:
    from paddock.journal.integrity.heads import parse_head

    try:
        with open(path, "rb") as file:
            return parse_head(json.loads(file.read(_MAX_HEAD_BYTES)))
    except OSError as error:
        raise InvalidInput(f"--head: {path} cannot be read: {error.strerror}") from None
    except InvalidInput as error:
        raise InvalidInput(f"--head: {path}: {error.message}") from None
    except (ValueError, RecursionError):
        raise InvalidInput(f"--head: {path} is not a saved head") from None


def _save_head(report: VerifyReport, path: Path) -> None:
    from paddock.journal.codec import body_of

    if report.head is None:
        raise InvalidInput("--save-head: no head is signed in this journal yet")
    write_pieces([json.dumps(body_of(report.head), indent=1), "\n"], path)


def _say_report(report: VerifyReport, options: argparse.Namespace, *, is_running: bool) -> None:
    if options.json:
        say_json({**_report_json(report), "is_running": is_running})
        return

    # A journal from elsewhere may say anything, and must not write lines of ours.
    def shown(text: str | None) -> str | None:
        return None if text is None else printable(text)

    problems = tuple(
        replace(
            problem,
            text=printable(problem.text),
            expected=shown(problem.expected),
            found=shown(problem.found),
        )
        for problem in report.problems
    )
    say(str(replace(report, run=shown(report.run), problems=problems)))
    if is_running and report.status is Status.INTERRUPTED:
        say("a process is still writing it: verify it again when the run has ended")


def _report_json(report: VerifyReport) -> dict[str, Any]:
    from paddock.journal.codec import body_of

    return {
        "ok": report.status is Status.ENDED,
        "status": report.status.value,
        "what": "journal",
        **pick(report, "run", "records", "signed", "segments", "heads"),
        "head": None if report.head is None else body_of(report.head),
        **pick(report, "blobs", "are_blobs_checked", "is_closed", "torn_bytes"),
        "problems": [
            {**asdict(problem), "finding": problem.finding.value} for problem in report.problems
        ],
    }


def _verify_proof(path: Path, key: PublicKey, options: argparse.Namespace) -> int:
    from paddock.journal.integrity.proof import check_proof

    if options.head or options.save_head or options.closed:
        raise InvalidInput(f"{path} is a proof; --head, --save-head, --closed are for journals")
    proof = _read_proof(path)
    try:
        records = check_proof(proof, key)
    except IntegrityError as error:
        problem = {"finding": "bad proof", "text": error.message}
        content = {"ok": False, "what": "proof", "problems": [problem]}
        say_json(content) if options.json else say(f"{path}: {error.message}")
        return ExitCode.FAILED
    if options.json:
        say_json(_proof_json(proof, records))
    else:
        say(_proof_text(proof, records))
    return 0


def _read_proof(path: Path) -> Mapping[str, Any]:
    with open(path, "rb") as file:
        data = file.read(MAX_PROOF_BYTES + 1)
    if len(data) > MAX_PROOF_BYTES:
        raise InvalidInput(f"{path} is too long for a proof")
    try:
        proof = json.loads(data)
    except (ValueError, RecursionError):
        proof = None
    if not isinstance(proof, Mapping) or "purpose" not in proof:
        raise InvalidInput(f"{path} is neither an exported journal (jsonl) nor a proof")
    return proof


def _proof_json(proof: Mapping[str, Any], records: list[Record]) -> dict[str, Any]:
    from paddock.cli.render.steps import record_json, stored_body
    from paddock.journal.integrity.proof import is_complete

    return {
        "ok": True,
        "what": "proof",
        "run": proof["run"],
        "step": proof["step"],
        "key_id": proof["key_id"],
        "is_complete": is_complete(proof),
        "records": [record_json(record, stored_body(record)) for record in records],
        "problems": [],
    }


def _proof_text(proof: Mapping[str, Any], records: list[Record]) -> str:
    from paddock.cli.render.steps import record_lines, stored_body
    from paddock.journal.integrity.proof import is_complete

    run, key = printable(proof["run"], 60), printable(proof["key_id"], 64)
    count = many(len(records), "record")
    count = f"all {count}" if is_complete(proof) and len(records) > 1 else count
    lines = [f"step {proof['step']} of run {run}: {count} proved, key {key}"]
    if not is_complete(proof):
        lines.append("how many records the step has is not signed in this run: there may be more")
    for record in records:
        lines += record_lines(record, stored_body(record), records[0].at)
    return "\n".join(lines)
