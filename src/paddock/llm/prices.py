"""What tokens cost: list prices of well-known models, and nothing for a model that is not listed.

The prices are those of the vendors' own standard service in US dollars, as published by 2026-11.
A model that is missing, a tier that costs something else, or a prompt beyond the length that a
price holds for has no cost here: a number that is made up is worse than none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from paddock.llm.answer import TokenUsage

AS_OF = "2026-11"


class Price(msgspec.Struct, frozen=True):
    """Thousandths of a US dollar for a million tokens."""

    input: int
    output: int
    cached: int | None = None
    cache_written: int | None = None
    cache_written_1h: int | None = None
    longest_input: int | None = None  # tokens; beyond it the price is another one


def cost_of(model: str, usage: TokenUsage, prices: Mapping[str, Price] | None = None) -> int | None:
    """Return the cost in millionths of a US dollar, rounded up; None where the price is not known.
    `prices` override the table of this file."""
    price = _find(model, prices or {}) or _find(model, PRICES)
    if price is None or usage.tier not in _STANDARD:
        return None
    if price.longest_input is not None and usage.input > price.longest_input:
        return None
    return _cost(price, usage)


_STANDARD = frozenset({None, "default", "standard", "auto"})
# A dated version costs what its model costs. Any other ending is another model (gpt-4o-audio).
_VERSION = re.compile(r"(?:[-@](?:\d{8}|\d{4}-\d\d-\d\d))?(?:-latest)?")


def _find(model: str, prices: Mapping[str, Price]) -> Price | None:
    for end in range(len(model), 0, -1):  # the longest name first
        price = prices.get(model[:end])
        if price is not None:
            return price if _VERSION.fullmatch(model, end) else None
    return None


def _cost(price: Price, usage: TokenUsage) -> int | None:
    hour = usage.cache_written_1h
    short = usage.cache_written - hour
    fresh = usage.input - usage.cached - usage.cache_written
    parts = (
        (fresh, price.input),
        (usage.cached, price.cached),
        (short, price.cache_written),
        (hour, price.cache_written_1h),
        (usage.output, price.output),
    )
    total = 0
    for tokens, each in parts:
        if tokens < 0 or (tokens and each is None):
            return None
        total += tokens * (each or 0)
    return -(-total // 1000)


def _claude(input: int, output: int, cached: int, longest: int | None = None) -> Price:
    # To write to the cache costs a quarter more for five minutes, and twice as much for an hour.
    return Price(input, output, cached, input * 5 // 4, input * 2, longest)


def _openai(input: int, output: int, cached: int | None, longest: int | None = None) -> Price:
    # These models write to their caches for free.
    return Price(input, output, cached, input, None, longest)


_LONG_GPT = 272_000
_LONG_SONNET = 200_000
_OPUS_4_5 = _claude(5_000, 25_000, 500)
_SONNET_4 = _claude(3_000, 15_000, 300, _LONG_SONNET)

PRICES: Mapping[str, Price] = {
    "claude-3-haiku": Price(250, 1_250, 30, 300, 500),
    "claude-3-opus": _claude(15_000, 75_000, 1_500),
    "claude-3-5-haiku": _claude(800, 4_000, 80),
    "claude-3-5-sonnet": _claude(3_000, 15_000, 300),
    "claude-3-7-sonnet": _claude(3_000, 15_000, 300),
    "claude-opus-4": _claude(15_000, 75_000, 1_500),
    "claude-opus-4-0": _claude(15_000, 75_000, 1_500),
    "claude-opus-4-1": _claude(15_000, 75_000, 1_500),
    "claude-opus-4-5": _OPUS_4_5,
    "claude-opus-4-6": _OPUS_4_5,
    "claude-opus-4-7": _OPUS_4_5,
    "claude-opus-4-8": _OPUS_4_5,
    "claude-opus-5": _OPUS_4_5,
    "claude-opus-5-5": _claude(4_000, 20_000, 200),
    "claude-sonnet-4": _SONNET_4,
    "claude-sonnet-4-0": _SONNET_4,
    "claude-sonnet-4-5": _SONNET_4,
    "claude-sonnet-4-6": _SONNET_4,
    "claude-sonnet-5": _claude(2_000, 10_000, 200),
    "claude-sonnet-5-5": _claude(2_000, 10_000, 200),
    "claude-haiku-4-5": _claude(1_000, 5_000, 100),
    "claude-haiku-5-5": _claude(100, 500, 10, 100_000),
    "claude-fable-5": _claude(10_000, 50_000, 1_000),
    "claude-fable-5-1": _claude(10_000, 50_000, 250),
    "gpt-3.5-turbo": _openai(500, 1_500, None),
    "gpt-4": _openai(30_000, 60_000, None),
    "gpt-4-turbo": _openai(10_000, 30_000, None),
    "gpt-4o": _openai(2_500, 10_000, 1_250),
    "gpt-4o-2024-05-13": _openai(5_000, 15_000, None),
    "gpt-4o-mini": _openai(150, 600, 75),
    "gpt-4.1": _openai(2_000, 8_000, 500),
    "gpt-4.1-mini": _openai(400, 1_600, 100),
    "gpt-4.1-nano": _openai(100, 400, 25),
    "gpt-5": _openai(1_250, 10_000, 125),
    "gpt-5-chat": _openai(1_250, 10_000, 125),
    "gpt-5-codex": _openai(1_250, 10_000, 125),
    "gpt-5-mini": _openai(250, 2_000, 25),
    "gpt-5-nano": _openai(50, 400, 5),
    "gpt-5-pro": _openai(15_000, 120_000, None),
    "gpt-5.1": _openai(1_250, 10_000, 125),
    "gpt-5.1-chat": _openai(1_250, 10_000, 125),
    "gpt-5.1-codex": _openai(1_250, 10_000, 125),
    "gpt-5.2": _openai(1_750, 14_000, 175),
    "gpt-5.2-chat": _openai(1_750, 14_000, 175),
    "gpt-5.4": _openai(2_500, 15_000, 250, _LONG_GPT),
    "gpt-5.4-mini": _openai(750, 4_500, 75, _LONG_GPT),
    "gpt-6-sol": Price(2_000, 10_000, 200, 2_500, None, _LONG_GPT),
    "gpt-6-luna": Price(100, 500, 10, 125, None, _LONG_GPT),
    "o1": _openai(15_000, 60_000, 7_500),
    "o1-mini": _openai(1_100, 4_400, 550),
    "o3": _openai(2_000, 8_000, 500),
    "o3-mini": _openai(1_100, 4_400, 550),
    "o3-pro": _openai(20_000, 80_000, None),
    "o4-mini": _openai(1_100, 4_400, 275),
    # Lists of 2025.
    "gemini-2.0-flash": Price(100, 400, 25),
    "gemini-2.5-flash": Price(300, 2_500, 30),
    "gemini-2.5-flash-lite": Price(100, 400, 10),
    "gemini-2.5-pro": Price(1_250, 10_000, 125, longest_input=200_000),
    "amazon.nova-lite-v1:0": Price(60, 240, 15),
    "amazon.nova-micro-v1:0": Price(35, 140),
    "amazon.nova-pro-v1:0": Price(800, 3_200, 200),
    "command-a-03-2025": Price(2_500, 10_000),
    "command-r-08-2024": Price(150, 600),
    "command-r-plus-08-2024": Price(2_500, 10_000),
}
