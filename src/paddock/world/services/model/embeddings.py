"""OpenAI's embeddings: `POST /v1/embeddings`. Texts that share words lie near each other, so that a
search over them finds something; there is no chance in it."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from array import array
from collections.abc import Mapping
from typing import Any

from paddock.llm.conversation import InvalidRequest, count_tokens
from paddock.llm.request_content import model_of

_MAX_INPUTS = 2048
_MAX_NUMBERS = 1 << 22  # in one answer
_MAX_DIMENSIONS = 4096
_WORD = re.compile(r"\w+")
_PLACES = 4  # that a word touches


def embed(body: Mapping[str, Any]) -> dict[str, Any]:
    """Answer a request for embeddings. Raises InvalidRequest."""
    model = model_of(body)
    texts = _texts(body.get("input"))
    size = _dimensions(body, model)
    if size * len(texts) > _MAX_NUMBERS:
        raise InvalidRequest(f"More than {_MAX_NUMBERS} numbers are too many.", "input")
    is_packed = body.get("encoding_format") == "base64"
    data = [
        {
            "object": "embedding",
            "index": index,
            "embedding": _spelled(vector(text, size), is_packed),
        }
        for index, text in enumerate(texts)
    ]
    tokens = sum(count_tokens(text) for text in texts)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": model, "usage": usage}


def vector(text: str, size: int) -> array[float]:
    """Return a unit vector of 32-bit numbers that follows from the words of a text."""
    numbers = [0.0] * size
    for word in _WORD.findall(text.casefold()) or [text]:
        digest = hashlib.blake2b(word.encode(), digest_size=_PLACES * 4).digest()
        for at in range(0, len(digest), 4):
            place = int.from_bytes(digest[at : at + 4], "big")
            numbers[(place >> 1) % size] += 1.0 if place & 1 else -1.0
    length = math.sqrt(sum(number * number for number in numbers))
    if not length:  # the words cancelled each other out
        numbers[0] = length = 1.0
    return array("f", [number / length for number in numbers])


def _spelled(numbers: array[float], is_packed: bool) -> str | list[float]:
    return base64.b64encode(numbers.tobytes()).decode() if is_packed else numbers.tolist()


def _dimensions(body: Mapping[str, Any], model: str) -> int:
    asked = body.get("dimensions")
    if asked is None:
        return 3072 if "large" in model else 1536
    if not isinstance(asked, int) or isinstance(asked, bool) or not 0 < asked <= _MAX_DIMENSIONS:
        raise InvalidRequest(f"dimensions is not a number up to {_MAX_DIMENSIONS}.", "dimensions")
    return asked


def _texts(given: Any) -> list[str]:
    """Return one text or several; tokens stand for themselves."""
    if isinstance(given, str) or (isinstance(given, list) and given and isinstance(given[0], int)):
        given = [given]
    if not isinstance(given, list) or not 0 < len(given) <= _MAX_INPUTS:
        raise InvalidRequest(f"input is not a text or a list of up to {_MAX_INPUTS}.", "input")
    texts = [one if isinstance(one, str) else _tokens(one) for one in given]
    if not all(texts):
        raise InvalidRequest("input has an empty text.", "input")
    return texts


def _tokens(given: Any) -> str:
    if not isinstance(given, list) or not all(isinstance(one, int) for one in given):
        raise InvalidRequest("input is neither text nor tokens.", "input")
    return " ".join(map(str, given))
