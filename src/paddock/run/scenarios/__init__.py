"""Scenarios: an agent, a world, data and faults, and what is expected of it. Read from YAML or
written in Python, run many at a time, and judged by what their journals say.
"""

from __future__ import annotations

from paddock.run.scenarios.scenario import Scenario, scenario

__all__ = ["Scenario", "scenario"]
