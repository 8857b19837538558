"""The first paddock file of a project, as text with a comment on each line. No I/O."""

from __future__ import annotations

from collections.abc import Iterator

from paddock.cli.project.inspection import Project, Used

_COLUMN = 44  # where comments begin
_MAX_HOSTS = 10  # of shell scripts


def paddock_file(project: Project) -> str:
    """Return a file that loads without a finding and lets out only what the project depends on."""
    parts = (_head(project), _network(project), _secrets(project), _world(project), _REST)
    return "\n".join("\n".join(part) + "\n" for part in map(list, parts) if part)


def _line(text: str, comment: str) -> str:
    """Return a line with its comment behind two blanks at least: a # that touches a word would
    belong to it."""
    return f"{text + '  ':{_COLUMN}}# {comment}"


def _head(project: Project) -> Iterator[str]:
    yield "# What this agent may do. Everything that is not said here, it may not."
    yield "# paddock policy check looks at this file; paddock policy explain says what it decides."
    yield _line("version: 1", "of the format of this file")
    yield _line(f"agent: {_quote(project.agent)}", "its name in journals, reports and budgets")
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
    if project.settings:
        yield _line("  # envs:", "its variables. Those of your .env are not passed on")
        for name in project.settings:
            yield _line(f'  #   {name}: ""', f"write the value, or: paddock run -e {name}")


def _network(project: Project) -> Iterator[str]:
    hosts = [(host, used) for used in project.used for host in used.service.hosts]
    allowed = [(host, used) for host, used in hosts if used.service.is_complete]
    others = [(host, f"{used.package}, in {used.file}") for host, used in hosts
              if not used.service.is_complete]  # fmt: skip
    others += [(host, f"in {file}") for host, file in project.hosts[:_MAX_HOSTS]]
    if allowed:
        yield _line("network:", "what it may reach; no other name even resolves")
        yield "  allow:"
    else:
        yield _line("network:", "what it may reach")
        yield _line("  mode: none", "nothing. Or, in its place:")
        yield "  # allow:" if others else "  # allow: [api.example.com:443]"
    for host, used in allowed:
        yield _line(f"    - {host}:443", f"{used.package}, in {used.file}")
    for host, why in others:
        yield _line(f"  #   - {host}:443", why)


def _secrets(project: Project) -> Iterator[str]:
    keys = service_keys(project)
    unplaced = [name for name in project.secrets if name not in keys]
    signing = {key for used in project.used if used.service.signs for key in used.service.keys}
    optional = [used for used in project.used if _is_optional(project, used)]
    if not keys and not unplaced and not optional:
        return
    yield _line("secrets:" if keys else "# secrets:", "inside are placeholders, never the values")
    for key, used in keys.items():
        yield from _secret(key, used, "  ")
    for used in optional:
        key = _key(project, used)
        unplaced = [name for name in unplaced if name != key]
        yield from _secret(key, used, "  # ")
    for name in unplaced:
        if name in signing:
            yield f"  # {name} signs requests inside: a placeholder is no use. Run with -e {name}"
        else:
            yield _line(f"  # {name}: {{from: env:{name}, to: [HOST]}}", "say which host it is for")


def _secret(key: str, used: Used, indent: str) -> Iterator[str]:
    service = used.service
    yield f"{indent}{key}:"
    yield _line(f"{indent}  from: env:{key}", "read from your environment when a run begins")
    yield _line(f"{indent}  to: [{', '.join(service.hosts)}]", "nobody else gets it")
    if service.placed:
        yield _line(f"{indent}  as: {service.placed}", "where it stands in a request")


def service_keys(project: Project) -> dict[str, Used]:
    """Return the key of each service that the file passes on, under its name."""
    return {
        _key(project, used): used
        for used in project.used
        if used.service.keys and not used.service.signs and not _is_optional(project, used)
    }


def _key(project: Project, used: Used) -> str:
    """Return the variable that the project names, else the usual one."""
    keys = used.service.keys
    return next((key for key in keys if key in project.named), keys[0])


def _is_optional(project: Project, used: Used) -> bool:
    """Return whether the secret is written as a comment: its host is not known, or nobody has said
    that there is a key, and the service answers without one."""
    service = used.service
    if not service.keys or service.signs:
        return False
    is_unused = service.is_open and project.named.isdisjoint(service.keys)
    return is_unused or not service.is_complete


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


def _quote(name: str) -> str:
    """Return a name in quotes: YAML would take some for a number or a truth value."""
    return f'"{name}"'
