"""What answers cost, and that nothing is guessed."""

from __future__ import annotations

from cases import for_each
from paddock.llm.answer import TokenUsage
from paddock.llm.prices import PRICES, Price, cost_of

MILLION = TokenUsage(input=1_000_000, output=1_000_000)


@for_each(
    ("model", "usage", "micros"),
    [
        ("gpt-4o", MILLION, 12_500_000),
        ("gpt-4o-2024-08-06", MILLION, 12_500_000),
        ("gpt-4o-2024-05-13", MILLION, 20_000_000),
        ("gpt-4o-mini", MILLION, 750_000),
        ("gpt-5-mini", TokenUsage(input=1_000_000, cached=1_000_000), 25_000),
        ("claude-haiku-4-5-20251001", MILLION, 6_000_000),
        ("claude-3-5-haiku-latest", MILLION, 4_800_000),
        ("claude-opus-4-5", TokenUsage(input=1_000_000, cache_written=1_000_000), 6_250_000),
        (
            "claude-opus-4-5",
            TokenUsage(input=1_000_000, cache_written=1_000_000, cache_written_1h=1_000_000),
            10_000_000,
        ),
        ("claude-opus-5-5", TokenUsage(input=1_000_000, cached=1_000_000), 200_000),
        ("gemini-2.5-flash", MILLION, 2_800_000),
        ("amazon.nova-lite-v1:0", MILLION, 300_000),
        ("gpt-5-nano", TokenUsage(input=1), 1),  # rounded up: something is not nothing
        ("gpt-5-nano", TokenUsage(), 0),
    ],
)
def test_cost_is_that_of_the_list(model: str, usage: TokenUsage, micros: int) -> None:
    assert cost_of(model, usage) == micros


@for_each(
    "model",
    [
        "",
        "gpt",
        "gpt-50",
        "gpt-4o-audio-preview",
        "gpt-4o-mini-tts",
        "gpt-4-1106-preview",
        "my-gpt-4o",
        "openai/gpt-4o",
        "claude-opus-4-9",
        "claude-opus-45",
        "llama",
    ],
)
def test_model_that_is_not_listed_has_no_cost(model: str) -> None:
    assert cost_of(model, MILLION) is None


def test_tier_with_another_price_has_no_cost() -> None:
    assert cost_of("gpt-5", TokenUsage(input=9, tier="priority")) is None
    assert cost_of("gpt-5", TokenUsage(input=9, tier="default")) is not None


def test_prompt_beyond_the_length_of_the_price_has_no_cost() -> None:
    assert cost_of("claude-sonnet-4-5", TokenUsage(input=200_000)) == 600_000
    assert cost_of("claude-sonnet-4-5", TokenUsage(input=200_001)) is None


def test_tokens_without_a_price_have_no_cost() -> None:
    assert cost_of("gpt-4", TokenUsage(input=10, cached=5)) is None


def test_counts_that_contradict_each_other_have_no_cost() -> None:
    assert cost_of("gpt-5", TokenUsage(input=5, cached=9)) is None


def test_own_prices_go_first() -> None:
    own = {"llama": Price(1_000, 2_000), "gpt-5": Price(0, 0)}
    assert cost_of("llama", MILLION, own) == 3_000_000
    assert cost_of("gpt-5", MILLION, own) == 0
    assert cost_of("gpt-4o", MILLION, own) == 12_500_000


def test_cached_input_never_costs_more_than_fresh_input() -> None:
    for name, price in PRICES.items():
        assert price.cached is None or price.cached < price.input < price.output, name
