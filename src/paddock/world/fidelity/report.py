"""The report: scores by endpoint and as one number, with the differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from paddock.model.plural import many
from paddock.world.fidelity.compare import AnswerComparison

_SHOWN = 20  # differences of one endpoint


class EndpointScore(msgspec.Struct, frozen=True):
    """The mean score of all requests to one endpoint."""

    name: str
    requests: int
    score: float
    differences: tuple[tuple[str, str, int], ...]  # kind, sentence, how often

    @classmethod
    def of(cls, name: str, compared: Sequence[AnswerComparison]) -> EndpointScore:
        counts = Counter(
            (str(difference.kind), difference.text)
            for comparison in compared
            for difference in comparison.differences
        )
        mean = sum(comparison.score for comparison in compared) / len(compared)
        differences = tuple((kind, text, count) for (kind, text), count in counts.most_common())
        return cls(name, len(compared), mean, differences)


class Fidelity(msgspec.Struct, frozen=True):
    """The fidelity of a stand-in. Its score is the mean of the endpoints'."""

    service: str
    against: str
    endpoints: tuple[EndpointScore, ...]

    @property
    def score(self) -> float:
        if not self.endpoints:
            return 0.0
        return sum(endpoint.score for endpoint in self.endpoints) / len(self.endpoints)

    def lines(self, most: int = _SHOWN) -> Iterable[str]:
        """Yield the report as text, the worst endpoint first."""
        count = many(sum(endpoint.requests for endpoint in self.endpoints), "request")
        yield f"{self.service} against {self.against}: {self.score:.0f} of 100 ({count})"
        worst_first = sorted(self.endpoints, key=lambda endpoint: (endpoint.score, endpoint.name))
        for endpoint in worst_first:
            yield f"{endpoint.score:5.0f}  {endpoint.name} ({endpoint.requests})"
        for endpoint in worst_first:
            for _, text, times in endpoint.differences[:most]:
                repeated = f" ({times} times)" if times > 1 else ""
                yield f"{endpoint.name}: {text}{repeated}"
            hidden = len(endpoint.differences) - most
            if hidden > 0:
                yield f"{endpoint.name}: and {many(hidden, 'more difference')}"

    def as_json(self) -> dict[str, Any]:
        return {
            "service": self.service,
            "against": self.against,
            "score": round(self.score, 2),
            "endpoints": [
                {
                    "endpoint": endpoint.name,
                    "requests": endpoint.requests,
                    "score": round(endpoint.score, 2),
                    "differences": [
                        {"what": kind, "text": text, "times": times}
                        for kind, text, times in endpoint.differences
                    ],
                }
                for endpoint in self.endpoints
            ],
        }
