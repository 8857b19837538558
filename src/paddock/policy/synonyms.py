"""Names that people know from other products, and what they are called in a paddock file."""

from __future__ import annotations

from collections.abc import Collection

# Our words, each with those that are written in its place. A word may stand for several of ours:
# which of them is meant depends on what can stand at that place.
_SYNONYMS = {
    # decide
    "block": "deny denied reject refuse forbid disallow prohibit drop stop never no",
    "allow": "permit accept pass grant ok yes"
             " allowlist allow_list allowed whitelist domains egress destinations",
    "ask": "approve approval require_approval needs_approval confirm prompt review human escalate"
           " interrupt hitl pause",
    "simulate": "mock fake stub dry_run dryrun emulate pretend",
    "fault": "fail error inject chaos",
    # stage; none for the looser ones: how far an agent is trusted is not for us to suggest
    "observe": "readonly read_only shadow watch monitor audit passive",
    "draft": "dry_run dryrun preview staging plan propose",
    "approve": "review ask approval human supervised confirm",
    # keys of the file
    "agent": "name id title",
    "sandbox": "machine container vm runtime resources image",
    "network": "net egress firewall",
    "secrets": "secret credentials keys",
    "world": "mocks mock stubs stub services simulation fakes",
    "faults": "fault chaos failures",
    "tools": "tool functions mcp mcp_servers",
    "rules": "rule policy policies permissions guardrails",
    "approvals": "approval hitl reviewers",
    "record": "recording log logging journal",
    # keys of a rule, and what it matches on
    "id": "name title",
    "match": "matches on target selector for resource",
    "unless": "except exclude excluding not ignore",
    "when": "if condition conditions expression where expr",
    "limit": "budget quota rate_limit limits",
    "decide": "decision action effect verdict then outcome do result",
    "why": "description reason message comment note because",
    "examples": "example tests",
    "host": "domain hostname url server hosts",
    "method": "verb methods",
    "path": "file filename directory url paths",
    "program": "command cmd binary executable programs",
    "argv": "args arguments command",
    "name": "tool function tools",
    "operation": "op operations access",
    "language": "lang",
    # kinds of action
    "exec": "command shell bash process program run cmd execute subprocess",
    "file": "filesystem files fs read write",
    "code": "python cell jupyter notebook script",
    "tool": "mcp function tool_call functions tools",
    "http": "network request web url https fetch api egress",
    "connect": "tcp socket connection",
    "model": "llm chat completion ai prompt",
    # sandbox
    "memory": "ram mem",
    "cpu": "cpus cores",
    "pids": "processes procs threads nproc",
    "disk": "storage space",
    "files": "fds nofile",
    "time": "timeout duration",
    "timeout": "time duration expires wait",
    "limits": "resources quota quotas",
    "envs": "env environment variables vars",
    "mounts": "mount volumes volume binds",
    "template": "image rootfs base",
    "container": "docker podman bubblewrap bwrap",
    "read": "ro readonly read_only get list",
    "write": "rw readwrite delete update create modify destructive",
    "admin": "dangerous root",
    "overlay": "cow copy",
    # network, secrets and approvals
    "filtered": "open on all full host bridge allowlist default",
    "none": "off disabled closed isolated",
    "from": "env source value file",
    "to": "hosts host for domains",
    "as": "header in placement",
    "by": "via channel channels who approvers",
    "terminal": "cli tty console stdin",
    "store": "dashboard web queue api",
    # faults
    "rate": "probability chance percent percentage",
    "times": "count max",
    "delay": "latency slow sleep",
    "status": "code status_code http_status",
    "reset": "disconnect close",
    "storm": "chaos outage",
    # services of the world
    "payments": "stripe payment billing",
    "chat": "slack teams discord",
    "forge": "github gitlab git",
    "tickets": "zendesk jira linear",
    "storage": "s3 gcs minio bucket",
    "mail": "sendgrid smtp email gmail",
    "postgres": "postgresql pg database sql db",
    "openapi": "swagger rest",
    "app": "asgi flask fastapi",
}  # fmt: skip


def synonym(word: str, choices: Collection[str]) -> str | None:
    """Return which of the choices the word is another name for, or None."""
    folded = word.lower().replace("-", "_").replace(" ", "_")
    if folded in choices:
        return folded
    ours = (name for name in choices if folded in _SYNONYMS.get(name, "").split())
    return next(ours, None)
