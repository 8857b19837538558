"""The vendors' own clients and an agent framework, over a socket."""

from __future__ import annotations

import asyncio
import json
import math
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from unit.world.services.model.asking import Say, Talk

openai = pytest.importorskip("openai", reason="openai is not installed")
anthropic = pytest.importorskip("anthropic", reason="anthropic is not installed")
uvicorn = pytest.importorskip("uvicorn", reason="uvicorn is not installed")

Serve = Callable[[Talk], str]
DOCS = Path(__file__).parents[5] / "docs" / "scripted-model.md"
ASK = "Please refund my order A-17, it came broken."
DONE = "Done: 4200 cents went back to Ada."
TOOLS: dict[str, Callable[..., Any]] = {
    "find_order": lambda id: {"id": id, "amount": 4200, "state": "paid", "customer": "Ada"},
    "find_policy": lambda topic: f"All {topic} within 30 days.",
    "refund": lambda order, amount, key: {"order": order, "amount": amount, "key": key},
}
CALLED = [
    ("find_order", {"id": "A-17"}),
    ("find_policy", {"topic": "refunds"}),
    ("refund", {"order": "A-17", "amount": 4200, "key": "refund-1"}),
]


@pytest.fixture
def serve() -> Iterator[Serve]:
    started: list[tuple[Any, threading.Thread]] = []

    def start(talk: Talk) -> str:
        config = uvicorn.Config(talk.app, port=0, lifespan="off", log_level="error", ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        started.append((server, thread))
        until = time.monotonic() + 10
        while not server.started:
            assert time.monotonic() < until, "the server did not start"
            time.sleep(0.01)
        return f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"

    yield start
    for server, thread in started:
        server.should_exit = True
        thread.join(10)


@pytest.fixture
def refund(say: Say) -> Talk:
    """The example of the documentation."""
    found = re.search(r"```yaml refund-script.yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert found
    return say(found[1])


def run(name: str, arguments: Any) -> str:
    value = TOOLS[name](**arguments)
    return value if isinstance(value, str) else json.dumps(value)


def chat_agent(url: str, is_stream: bool) -> tuple[str, list[Any]]:
    messages: list[Any] = [{"role": "user", "content": ASK}]
    called = []
    with openai.OpenAI(api_key="k", base_url=f"{url}/v1") as client:
        for _ in range(9):
            if is_stream:
                with client.chat.completions.stream(model="gpt-5", messages=messages) as stream:
                    answer = stream.get_final_completion().choices[0].message
            else:
                made = client.chat.completions.create(model="gpt-5", messages=messages)
                answer = made.choices[0].message
            if not answer.tool_calls:
                return answer.content, called
            messages.append(answer.model_dump(exclude_none=True, exclude={"parsed"}))
            for call in answer.tool_calls:
                called.append((call.function.name, json.loads(call.function.arguments)))
                result = run(*called[-1])
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    raise AssertionError("it did not end")


def messages_agent(url: str, is_stream: bool) -> tuple[str, list[Any]]:
    messages: list[Any] = [{"role": "user", "content": ASK}]
    called, thought = [], []
    with anthropic.Anthropic(api_key="k", base_url=url) as client:
        for _ in range(9):
            asked = {"model": "claude-sonnet-5-5", "max_tokens": 999, "messages": messages}
            if is_stream:
                with client.messages.stream(**asked) as stream:
                    answer = stream.get_final_message()
            else:
                answer = client.messages.create(**asked)
            messages.append({"role": "assistant", "content": answer.content})
            thought += [block.thinking for block in answer.content if block.type == "thinking"]
            uses = [block for block in answer.content if block.type == "tool_use"]
            if answer.stop_reason != "tool_use":
                assert thought == ["It was paid, so it can be refunded."]
                return answer.content[0].text, called
            called += [(use.name, use.input) for use in uses]
            results = [
                {"type": "tool_result", "tool_use_id": use.id, "content": run(use.name, use.input)}
                for use in uses
            ]
            messages.append({"role": "user", "content": results})
    raise AssertionError("it did not end")


def responses_agent(url: str, is_stream: bool) -> tuple[str, list[Any]]:
    """Whole, it sends the history each time; streaming, only what is new."""
    items: list[Any] = [{"role": "user", "content": ASK}]
    called: list[Any] = []
    previous: Any = openai.omit
    with openai.OpenAI(api_key="k", base_url=f"{url}/v1") as client:
        for _ in range(9):
            asked = {"model": "gpt-5", "input": items, "previous_response_id": previous}
            if is_stream:
                with client.responses.stream(**asked) as stream:
                    answer = stream.get_final_response()
                items, previous = [], answer.id
            else:
                answer = client.responses.create(**asked)
                items += answer.output
            calls = [item for item in answer.output if item.type == "function_call"]
            if not calls:
                return answer.output_text, called
            for call in calls:
                called.append((call.name, json.loads(call.arguments)))
                output = {"type": "function_call_output", "call_id": call.call_id}
                items.append({**output, "output": run(*called[-1])})
    raise AssertionError("it did not end")


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("agent", [chat_agent, messages_agent, responses_agent])
def test_agent_plays_the_example_of_the_documentation(
    refund: Talk, serve: Serve, agent: Any, is_stream: bool
) -> None:
    assert agent(serve(refund), is_stream) == (DONE, CALLED)
    assert set(refund.model.show()["turns"].values()) == {1}
    assert refund.model.show()["unmatched"] == []


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
def test_openai_agents_runs_the_example(
    refund: Talk, serve: Serve, api: str, is_stream: bool
) -> None:
    agents = pytest.importorskip("agents", reason="openai-agents is not installed")
    called: list[Any] = []

    def tool(name: str, *parameters: str) -> Any:
        async def invoke(_: Any, text: str) -> str:
            called.append((name, json.loads(text)))
            return run(*called[-1])

        schema = {
            "type": "object",
            "properties": {one: {} for one in parameters},
            "required": list(parameters),
            "additionalProperties": False,
        }
        return agents.FunctionTool(name, name, schema, invoke, strict_json_schema=False)

    async def play(url: str) -> str:
        async with openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1") as client:
            kind = (
                agents.OpenAIChatCompletionsModel if api == "chat" else agents.OpenAIResponsesModel
            )
            clerk = agents.Agent(
                name="clerk",
                instructions="You are a clerk.",
                model=kind(model="gpt-5", openai_client=client),
                tools=[
                    tool("find_order", "id"),
                    tool("find_policy", "topic"),
                    tool("refund", "order", "amount", "key"),
                ],
            )
            config = agents.RunConfig(tracing_disabled=True)
            if not is_stream:
                result = await agents.Runner.run(clerk, ASK, run_config=config)
                return str(result.final_output)
            streamed = agents.Runner.run_streamed(clerk, ASK, run_config=config)
            async for _ in streamed.stream_events():
                pass
            return str(streamed.final_output)

    assert asyncio.run(play(serve(refund))) == DONE
    assert sorted(called) == sorted(CALLED, key=lambda one: one[0])


def test_other_answers_of_the_example_are_reached_too(refund: Talk) -> None:
    assert refund.chat("Thank you!").text == "You are welcome."
    asked = refund.chat(ASK)
    ids = [one["id"] for one in asked.json["choices"][0]["message"]["tool_calls"]]
    results = [{"role": "tool", "tool_call_id": id, "content": "unpaid"} for id in ids]
    history = [{"role": "user", "content": ASK}, asked.json["choices"][0]["message"], *results]
    assert "never paid" in refund.chat(history).text


def test_clients_raise_their_own_errors(say: Say, serve: Serve) -> None:
    rules = [
        {"match": {"user": str(status)}, "answer": {"error": {"status": status, "message": "No."}}}
        for status in (400, 401, 403, 404, 429, 500, 529)
    ]
    url = serve(say({"rules": rules}))
    for vendor in (openai, anthropic):
        names = ["BadRequest", "Authentication", "PermissionDenied", "NotFound", "RateLimit"]
        expected = [getattr(vendor, f"{name}Error") for name in names]
        expected += [vendor.InternalServerError] * 2
        for rule, kind in zip(rules, expected, strict=True):
            with pytest.raises(kind, match=r"No\."):
                ask(vendor, url, rule["match"]["user"], retries=0)


def test_clients_try_again_after_an_error_and_get_the_next_turn(say: Say, serve: Serve) -> None:
    failing = [{"answer": {"error": {"status": s, "retry_after": 0.01}}} for s in (429, 500)]
    url = serve(say({"turns": [*failing, {"answer": "at last"}]}))
    assert ask(openai, url, "one", retries=2) == "at last"
    assert ask(anthropic, url, "two", retries=2) == "at last"


def test_refusal_of_the_script_is_not_tried_again(say: Say, serve: Serve) -> None:
    talk = say({"turns": [{"match": {"user": "never"}, "answer": "x"}]})
    url = serve(talk)
    for vendor in (openai, anthropic):
        with pytest.raises(vendor.BadRequestError, match="has no answer to this request"):
            ask(vendor, url, vendor.__name__, retries=2)
    assert [one["asked"] for one in talk.model.show()["unmatched"]] == [1, 1]


def ask(vendor: Any, url: str, text: str, retries: int) -> Any:
    messages = [{"role": "user", "content": text}]
    if vendor is openai:
        with openai.OpenAI(api_key="k", base_url=f"{url}/v1", max_retries=retries) as client:
            made = client.chat.completions.create(model="gpt-5", messages=messages)
            return made.choices[0].message.content
    with anthropic.Anthropic(api_key="k", base_url=url, max_retries=retries) as client:
        made = client.messages.create(model="claude", max_tokens=9, messages=messages)
        return made.content[0].text


def test_any_model_exists_when_the_script_lists_none(say: Say) -> None:
    model = say({"otherwise": "x"})
    assert model.send("GET", "/v1/models/whatever").json["id"] == "whatever"
    assert len(model.send("GET", "/v1/models").json["data"]) == 5


def test_clients_list_models_in_their_own_shape(say: Say, serve: Serve) -> None:
    url = serve(say({"models": ["gpt-a", "claude-b"], "otherwise": "x"}))
    with openai.OpenAI(api_key="k", base_url=f"{url}/v1") as client:
        assert [one.id for one in client.models.list()] == ["gpt-a", "claude-b"]
        assert client.models.retrieve("gpt-a").owned_by == "paddock"
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve("gpt-z")
    with anthropic.Anthropic(api_key="k", base_url=url) as client:
        assert [one.id for one in client.models.list()] == ["gpt-a", "claude-b"]
        assert client.models.retrieve("claude-b").created_at.year == 2026
        counted = client.messages.count_tokens(
            model="claude-b", messages=[{"role": "user", "content": "x" * 400}]
        )
        assert counted.input_tokens == 104


@pytest.mark.parametrize("encoding", ["float", "base64", None])
def test_embeddings_are_unit_vectors_near_for_texts_that_share_words(
    say: Say, serve: Serve, encoding: Any
) -> None:
    texts = ["refund the order", "please refund my order", "weather in Rome", "..."]
    more = {} if encoding is None else {"encoding_format": encoding}
    with openai.OpenAI(api_key="k", base_url=f"{serve(say({'otherwise': 'x'}))}/v1") as client:
        made = client.embeddings.create(
            model="text-embedding-3-small", input=texts, dimensions=256, **more
        )
        again = client.embeddings.create(
            model="text-embedding-3-small", input=texts[0], dimensions=256, **more
        )
    assert made.usage.prompt_tokens > 0 and again.data[0].embedding == made.data[0].embedding
    if encoding == "base64":
        return
    vectors = [one.embedding for one in made.data]
    assert [len(one) for one in vectors] == [256] * 4
    assert all(math.isclose(dot(one, one), 1.0, rel_tol=1e-5) for one in vectors)
    assert dot(vectors[0], vectors[1]) > 0.4 > dot(vectors[0], vectors[2])


def dot(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def test_stream_arrives_part_by_part_with_async_clients(say: Say, serve: Serve) -> None:
    url = serve(say({"otherwise": "one two three four", "chunk": 4}))

    async def both() -> tuple[list[str], list[str]]:
        messages: Any = [{"role": "user", "content": "x"}]
        async with openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1") as client:
            stream = await client.chat.completions.create(
                model="gpt-5",
                messages=messages,
                stream=True,
                stream_options={"include_usage": True},
            )
            chunks = [one async for one in stream]
        assert chunks[-1].usage.completion_tokens == 5
        said = [one.choices[0].delta.content for one in chunks if one.choices]
        asked: Any = {"model": "claude", "max_tokens": 9, "messages": messages}
        async with (
            anthropic.AsyncAnthropic(api_key="k", base_url=url) as client,
            client.messages.stream(**asked) as told,
        ):
            heard = [one async for one in told.text_stream]
        return [one for one in said if one], heard

    expected = ["one ", "two ", "thre", "e fo", "ur"]
    assert asyncio.run(both()) == (expected, expected)
