"""Scores, endpoint by endpoint and as one number, with the differences as lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from paddock.model.plural import many
from paddock.world.fidelity.compare import AnswerComparison

_SHOWN = 20  # differences of one endpoint


class EndpointScore(msgspec.Struct, frozen=True):
    """All requests of one kind. Its score is the mean of theirs."""

    name: str
    requests: int
    score: float
    differences: tuple[tuple[str, str, int], ...]  # what, a sentence, how often

    @classmethod
    def of(cls, name: str, compared: Sequence[AnswerComparison]) -> EndpointScore:
        counted = Counter((str(d.what), d.text) for one in compared for d in one.differences)
        mean = sum(one.score for one in compared) / len(compared)
        found = tuple((what, text, count) for (what, text), count in counted.most_common())
        return cls(name, len(compared), mean, found)


class Fidelity(msgspec.Struct, frozen=True):
    """Of a stand-in. The number is the mean of the endpoints', each worth the same."""

    service: str
    against: str
    endpoints: tuple[EndpointScore, ...]

    @property
    def score(self) -> float:
        if not self.endpoints:
            return 0.0
        return sum(one.score for one in self.endpoints) / len(self.endpoints)

    def lines(self, most: int = _SHOWN) -> Iterable[str]:
        """For people: the worst first."""
        count = many(sum(one.requests for one in self.endpoints), "request")
        yield f"{self.service} against {self.against}: {self.score:.0f} of 100 ({count})"
        for one in sorted(self.endpoints, key=lambda one: (one.score, one.name)):
            yield f"{one.score:5.0f}  {one.name} ({one.requests})"
        for one in sorted(self.endpoints, key=lambda one: (one.score, one.name)):
            for _, text, times in one.differences[:most]:
                yield f"{one.name}: {text}" + (f" ({times} times)" if times > 1 else "")
            if len(one.differences) > most:
                yield f"{one.name}: and {many(len(one.differences) - most, 'more difference')}"

    def as_json(self) -> dict[str, Any]:
        return {
            "service": self.service,
            "against": self.against,
            "score": round(self.score, 2),
            "endpoints": [
                {
                    "endpoint": one.name,
                    "requests": one.requests,
                    "score": round(one.score, 2),
                    "differences": [
                        {"what": what, "text": text, "times": times}
                        for what, text, times in one.differences
                    ],
                }
                for one in self.endpoints
            ],
        }
