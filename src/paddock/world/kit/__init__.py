"""The kit for stand-ins that speak HTTP, built on Starlette.

The author of a service writes handlers: plain functions from a `Call` to a `Reply`. An `Api` is the
ASGI application around them. For each request it reads the body within a bound, finds out who
calls, finds the handler by method and path, and runs it in one transaction of the store, so that a
request happens as a whole or not at all; only GET and HEAD, which read, have none. A handler awaits
nothing. It raises `ApiError` for an answer that is an error, and then whatever it wrote is undone.

    request -> body -> authenticate -> route -> handler, in a transaction -> finish -> answer
                 |                       |         |
                 +--------- refuse ------+---------+

The hooks `authenticate`, `refuse` and `finish` of `Api` are where a service gives credentials,
errors and headers the form that its clients expect. Besides that the kit has:

- strict input: `parse_json` and `Form` accept only what the store can keep;
- `pages`: one page of a listing, by number or by cursor;
- `search`: the grammar of search boxes, `status:open -label:"help wanted" crash`;
- small formats: `iso_timestamp`, `is_email_address`, `whole_number`.

Nothing imports the kit before a service uses it, nor Starlette before the first request.
"""

from paddock.world.kit.api import Api, ApiError, Call, Handler, Reply, Route
from paddock.world.kit.formats import is_email_address, iso_timestamp, whole_number
from paddock.world.kit.input import (
    Form,
    MalformedRequest,
    RequestError,
    TooLarge,
    UnknownPath,
    Upload,
    parse_json,
    parse_query,
)
from paddock.world.kit.pages import (
    CursorPage,
    InvalidCursor,
    NumberedPage,
    cursor_page,
    decode_cursor,
    encode_cursor,
    numbered_page,
    store_page,
)
from paddock.world.kit.search import Term, compare, parse_terms

__all__ = [
    "Api",
    "ApiError",
    "Call",
    "CursorPage",
    "Form",
    "Handler",
    "InvalidCursor",
    "MalformedRequest",
    "NumberedPage",
    "Reply",
    "RequestError",
    "Route",
    "Term",
    "TooLarge",
    "UnknownPath",
    "Upload",
    "compare",
    "cursor_page",
    "decode_cursor",
    "encode_cursor",
    "is_email_address",
    "iso_timestamp",
    "numbered_page",
    "parse_json",
    "parse_query",
    "parse_terms",
    "store_page",
    "whole_number",
]
