"""Ready-made sets of faults, written like the file writes them. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# What any service does on an ordinary bad day. An agent that retries with care gets through.
_FLAKY: tuple[Mapping[str, Any], ...] = (
    {"id": "rate-limit", "match": {"kind": "http"}, "rate": 0.08,
     "fault": {"status": 429, "retry_after": 1}},
    {"id": "unavailable", "match": {"kind": "http"}, "rate": 0.05, "fault": {"status": 503}},
    {"id": "reset", "match": {"kind": ["http", "connect"]}, "rate": 0.03,
     "fault": {"reset": True}},
    {"id": "overloaded-model", "match": {"kind": "model"}, "rate": 0.08,
     "fault": {"status": 529, "retry_after": 1}},
    {"id": "failing-tool", "match": {"kind": "tool"}, "rate": 0.08,
     "fault": {"error": "The service is temporarily unavailable. Try again."}},
    {"id": "slow", "match": {"kind": ["http", "model", "tool"]}, "rate": 0.1,
     "fault": {"delay": "2s"}},
    {"id": "lost-name", "match": {"kind": "dns"}, "rate": 0.02, "fault": {"servfail": True}},
)  # fmt: skip

# An outage: much fails, some of it slowly, and hammering makes nothing better.
_STORM: tuple[Mapping[str, Any], ...] = (
    {"id": "down", "match": {"kind": ["http", "model"]}, "rate": 0.35,
     "fault": {"status": 503, "retry_after": 5}},
    {"id": "silent", "match": {"kind": ["http", "model", "tool"]}, "rate": 0.1,
     "fault": {"timeout": "10s"}},
    {"id": "reset", "match": {"kind": ["http", "connect", "tool"]}, "rate": 0.15,
     "fault": {"reset": True}},
    {"id": "lost-answer", "match": {"kind": "http", "effect": ["write", "admin"]}, "rate": 0.1,
     "fault": {"after": 504}},
    {"id": "failing-tool", "match": {"kind": "tool"}, "rate": 0.2,
     "fault": {"error": "The service is down."}},
    {"id": "slow", "match": {"kind": ["http", "model", "tool"]}, "rate": 0.3,
     "fault": {"delay": "5s"}},
    {"id": "lost-name", "match": {"kind": "dns"}, "rate": 0.1, "fault": {"servfail": True}},
)  # fmt: skip

# Answers that lie, or get lost when the write has happened. Errors are seen; these must be noticed.
_HOSTILE: tuple[Mapping[str, Any], ...] = (
    {"id": "lost-answer", "match": {"kind": "http", "effect": ["write", "admin"]}, "rate": 0.25,
     "fault": {"after": "reset"}},
    {"id": "lost-result", "match": {"kind": "tool", "effect": ["write", "admin"]}, "rate": 0.25,
     "fault": {"after": "error", "error": "The connection was lost."}},
    {"id": "duplicate", "match": {"kind": "http", "effect": ["write", "admin"]}, "rate": 0.1,
     "fault": {"duplicate": True}},
    {"id": "stale", "match": {"kind": ["http", "tool"], "effect": "read"}, "rate": 0.2,
     "fault": {"stale": True}},
    {"id": "truncated", "match": {"kind": ["http", "model", "tool"]}, "rate": 0.1,
     "fault": {"truncate": 0.5}},
    {"id": "malformed", "match": {"kind": ["http", "model", "tool"]}, "rate": 0.1,
     "fault": {"malformed": True}},
    {"id": "wrong-type", "match": {"kind": "http"}, "rate": 0.08,
     "fault": {"wrong_type": "text/html"}},
    {"id": "drip", "match": {"kind": ["http", "model"]}, "rate": 0.05, "fault": {"drip": 200}},
    {"id": "disk-full", "match": {"kind": "file", "operation": "write"}, "rate": 0.05,
     "fault": {"disk_full": True}},
    {"id": "killed", "match": {"kind": "exec"}, "rate": 0.03, "fault": {"kill": "1s"}},
    {"id": "no-such-name", "match": {"kind": "dns"}, "rate": 0.05, "fault": {"nxdomain": True}},
)  # fmt: skip

FAULT_SETS: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "storm": _STORM,
    "flaky": _FLAKY,
    "hostile": _HOSTILE,
}
