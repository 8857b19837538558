"""The first paddock file of a project, as text with a comment on each line. No I/O."""

from __future__ import annotations

from collections.abc import Iterator

from paddock.cli.init_look import Project, Used

_COLUMN = 44  # where comments begin


def paddock_file(project: Project) -> str:
    """A file that loads without a finding and lets out only what the project depends on."""
    parts = (_head(project), _network(project), _secrets(project), _world(project), _REST)
    return "\n".join("\n".join(part) + "\n" for part in map(list, parts) if part)


def _line(text: str, comment: str) -> str:
    """With two blanks at least: a # that touches a word would belong to it."""
    return f"{text + '  ':{_COLUMN}}# {comment}"


def _head(project: Project) -> Iterator[str]:
    yield "# What this agent may do. Everything that is not said here, it may not."
    yield "# paddock policy check looks at this file; paddock policy explain says what it decides."
    yield _line("version: 1", "of the format of this file")
    yield _line(f"agent: {_quoted(project.agent)}", "its name in journals, reports and budgets")
    yield _line("stage: draft", "writes to the outside are kept as drafts, for you to")
    yield _line("", "read and send. observe < draft < approve < narrow < broad")
    yield ""
    yield _line("sandbox:", "the machine that it lives in")
    yield _line("  limits:", "hard ceilings")
    yield _line("    cpu: 1", "cores")
    yield _line("    memory: 1GiB", "beyond it, programs are killed")
    yield _line("    pids: 256", "processes and threads at a time")
    yield _line("    disk: 2GiB", "of what it writes; your own files are not touched")
    yield _line("  timeout: 1h", "the run ends after this")


def _network(project: Project) -> Iterator[str]:
    hosts = [(host, used) for used in project.used for host in used.service.hosts]
    if not hosts:
        yield _line("network:", "what it may reach")
        yield _line("  mode: none", "nothing. Or, in its place:")
        yield "  # allow: [api.example.com:443]"
        return
    yield _line("network:", "what it may reach; no other name even resolves")
    yield "  allow:"
    for host, used in hosts:
        yield _line(f"    - {host}:443", f"{used.package}, in {used.file}")


def _secrets(project: Project) -> Iterator[str]:
    known = [(key, used) for used in project.used for key in _keys(project, used)]
    names = {key for key, _ in known}
    others = [name for name in project.variables if name not in names]
    if not known and not others:
        return
    yield _line("secrets:" if known else "# secrets:", "inside are placeholders, never the values")
    for key, used in known:
        service = used.service
        yield f"  {key}:"
        yield _line(f"    from: env:{key}", "read from your environment when a run begins")
        yield _line(f"    to: [{', '.join(service.hosts)}]", "nobody else gets it")
        yield _line(f"    as: {service.placed}", "where it stands in a request")
    for name in others:
        yield _line(f"  # {name}: {{from: env:{name}, to: [HOST]}}", "say which host it is for")


def _keys(project: Project, used: Used) -> list[str]:
    """The keys of a service that the project names; a name that it does not use would only be
    missing when a run begins."""
    service = used.service
    return [key for key in service.keys if key in project.variables and service.placed][:1]


def _world(project: Project) -> Iterator[str]:
    lines = [used.service.world for used in project.used if used.service.world]
    if not lines:
        return
    yield "# Stand-ins in place of the real services: take the # away to rehearse with them."
    yield "# world:"
    for line in lines:
        yield f"#   {line}"
    yield _line("#   settings: {seed: 7}", "the same seed, the same world")


_REST = (
    _line("rules:", "of all that match, the strictest holds"),
    _line("  - id: deletions-need-a-person", "its name, in journals and refusals"),
    _line("    match: {kind: http, method: DELETE}", "which actions it is about"),
    _line("    decide: ask", "allow | simulate | fault | ask | block"),
    _line("    why: What is deleted is gone.", "for whoever meets the rule"),
    _line("    examples:", "checked whenever the file is loaded"),
    "      match: [{kind: http, method: DELETE, host: api.example.com, path: /users/7}]",
    "      not_match: [{kind: http, method: GET, host: api.example.com, path: /users/7}]",
    "",
    _line("approvals:", "where a rule or the stage says ask"),
    _line("  timeout: 15m", "no answer in this time means no"),
    _line("  by: [terminal]", "terminal: here; store: paddock approvals, anywhere"),
)


def _quoted(name: str) -> str:
    """Names that YAML would take for a number or a truth are quoted, so all are."""
    return f'"{name}"'
