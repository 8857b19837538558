"""Requests carried out on the store: create, read, list, update, delete, and guesses for whatever
is none of these."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from paddock.world.context import Context
from paddock_services.openapi.api import GUESS, Answer, OpenApiDescription, example_of
from paddock_services.openapi.envelope import find_list, find_record, is_same, page_fields
from paddock_services.openapi.errors import RequestRefused, error_answer
from paddock_services.openapi.generation import MISSING, Source
from paddock_services.openapi.lists import list_page, select
from paddock_services.openapi.records import (
    GONE,
    ID,
    Record,
    Records,
    record_after_action,
    sent_record,
    set_parents,
    set_times,
    text_of,
    updated_record,
    without_marks,
    writable_fields,
)
from paddock_services.openapi.request import CheckedRequest, RawRequest, check_request
from paddock_services.openapi.resources import Resource, Role, RouteInfo
from paddock_services.openapi.routes import Operation, PathRoute, Response

_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class RequestHandler:
    """Answers all requests to one service."""

    def __init__(self, api: OpenApiDescription, context: Context) -> None:
        self._api = api
        self._records = Records(api, context)
        self._context = context

    def answer(self, raw: RawRequest) -> Answer:
        """Carry out a request in one transaction, and answer it."""
        match = self._api.routes.find(raw.path)
        if match is None:
            refused = RequestRefused(404, f"there is nothing at {raw.path[:200]}")
            return error_answer(self._api, None, refused)
        route, values = match
        operation = route.operations.get(raw.method)
        if operation is None and raw.method == "HEAD":
            operation = route.operations.get("GET")
        if operation is None:
            return self._answer_other_method(raw, route)
        try:
            with self._context.store.transaction():
                request = check_request(self._api, operation, values, raw)
                return _Call(self._api, self._records, request).answer()
        except RequestRefused as refused:
            return error_answer(self._api, operation, refused)

    def _answer_other_method(self, raw: RawRequest, route: PathRoute) -> Answer:
        allowed = ", ".join(sorted(route.operations))
        if raw.method == "OPTIONS":
            return Answer(204, None, {"allow": allowed}, None)
        refused = RequestRefused(405, f"{raw.method[:20]} is not possible here")
        refused.headers["allow"] = allowed
        return error_answer(self._api, None, refused)


class _Call:
    """One request that is carried out."""

    def __init__(self, api: OpenApiDescription, records: Records, request: CheckedRequest) -> None:
        self._api = api
        self._records = records
        self._context = records.context
        self._request = request
        self._operation: Operation = request.operation
        self._method = request.operation.method
        self._info: RouteInfo = api.resources.info(request.operation.route)
        self._scope = {
            key: request.path[name]
            for name, key in self._info.scope.items()
            if name in request.path
        }

    def answer(self) -> Answer:
        resource = self._info.resource
        if resource is None:
            return self._guess()
        match self._info.role:
            case Role.ITEM:
                return self._item(resource)
            case Role.COLLECTION | Role.VIEW if self._method == "GET":
                return self._list(resource)
            case Role.COLLECTION | Role.VIEW if self._method == "POST":
                return self._create(resource)
            case Role.COLLECTION if self._method in ("PUT", "PATCH"):
                return self._update_by_body(resource)
            case Role.COLLECTION if self._method == "DELETE":
                return self._delete_all(resource)
            case Role.SINGLETON:
                return self._singleton(resource)
            case Role.ACTION:
                return self._act(resource)
        return self._guess()

    # Items

    def _item(self, resource: Resource) -> Answer:
        can_exist = resource.is_creatable or resource.is_listed
        if not can_exist and not self._context.store.count(resource.kind):
            return self._guess()  # a plausible record is better than none
        self._check_owners()
        id = self._request.path[self._operation.route.segments[-1].strip("{}")]
        record = self._records.get(resource, self._scope, id)
        if record is None:
            if self._method == "PUT" and self._may_put_new(resource):
                return self._create(resource, id)
            raise RequestRefused(404, f"there is no {resource.noun} {id[:100]}")
        if self._method == "DELETE":
            self._context.tick()
            self._records.delete(resource, record)
            return self._answer_record(resource, record, (204, 200, 202))
        if self._method in _WRITES:
            return self._update(resource, record)
        return self._answer_record(resource, record, (200,))

    def _may_put_new(self, resource: Resource) -> bool:
        if any(response.status == "201" for response in self._operation.responses):
            return True
        return not any(
            "POST" in route.operations
            and not route.is_item
            and self._api.resources.info(route).resource is resource
            for route in self._api.routes.all
        )

    def _create(self, resource: Resource, id: str | None = None) -> Answer:
        self._check_owners()
        body = sent_record(self._api, self._request, resource)
        statuses = (201, 200, 202)
        if isinstance(body, list):
            records = [self._add(resource, item, None) for item in body]
            return self._answer_records(resource, records, statuses)
        record = self._add(resource, body, id)
        headers = {}
        is_created = self._operation.success(*statuses)[0] == 201
        if is_created and id is None and self._info.role is Role.COLLECTION:
            raw = self._request.raw
            new_id = self._records.id_of(resource, record)
            headers["location"] = f"{raw.origin}{raw.path.rstrip('/')}/{new_id}"
        return self._answer_record(resource, record, statuses, headers)

    def _add(self, resource: Resource, body: Any, id: str | None) -> Record:
        record = writable_fields(self._api, resource, body)
        set_parents(self._api, resource, record, self._scope)
        id_name = resource.id_name or ID
        if id is not None:
            record[id_name] = id
        sent_id = record.get(id_name)
        if sent_id is None or sent_id == "":
            record[id_name] = self._records.new_id(resource, self._scope, record)
        elif self._records.get(resource, self._scope, text_of(sent_id)) is not None:
            message = f"there is a {resource.noun} {str(sent_id)[:100]} already"
            raise RequestRefused(409, message)
        return self._save(resource, record, is_new=True)

    def _save(self, resource: Resource, record: Record, *, is_new: bool) -> Record:
        """Store a record, with everything that its schema requires."""
        timestamp = self._context.tick()
        set_times(self._api, resource, record, timestamp, is_new=is_new)
        source = self._record_source(resource, record)
        fitted = self._api.fitter.fit(resource.node, without_marks(record), source)
        marks = {name: value for name, value in record.items() if name.startswith("~")}
        fields = fitted if isinstance(fitted, dict) else without_marks(record)
        saved = {**fields, **marks}
        self._records.put(resource, saved)
        return saved

    def _update(self, resource: Resource, record: Record) -> Answer:
        changed = updated_record(self._api, self._request, resource, record)
        saved = self._save(resource, changed, is_new=False)
        return self._answer_record(resource, saved, (200, 201, 202))

    def _update_by_body(self, resource: Resource) -> Answer:
        """Update the record whose id is in the body of a PUT to its collection."""
        body = sent_record(self._api, self._request, resource)
        id = body.get(resource.id_name) if isinstance(body, dict) and resource.id_name else None
        if id is None:
            return self._guess()
        record = self._records.get(resource, self._scope, text_of(id))
        if record is None:
            raise RequestRefused(404, f"there is no {resource.noun} {str(id)[:100]}")
        return self._update(resource, record)

    def _delete_all(self, resource: Resource) -> Answer:
        self._check_owners()
        self._context.tick()
        records = self._records.all(resource, self._scope)
        for record in select(self._api, self._request, resource, records):
            self._records.delete(resource, record)
        status, response = self._operation.success(204, 200, 202)
        return self._api.shaped_answer(status, response, MISSING, self._request_source())

    def _list(self, resource: Resource) -> Answer:
        _, response = self._operation.success(200)
        if find_list(self._api.schemas, response.node, resource.noun) is None:
            return self._guess()
        self._check_owners()
        records = self._records.all(resource, self._scope)
        items, page = list_page(self._api, self._request, resource, records)
        declared = {name.lower() for name in response.headers}
        headers: dict[str, str] = {}
        for name in ("x-total-count", "x-total", "total-count"):
            if name in declared:
                headers[name] = str(page.total)
        if "link" in declared and page.has_more and page.next_url:
            headers["link"] = f'<{page.next_url}>; rel="next"'
        around = page_fields(self._api.schemas, response.node, page)
        return self._answer_records(resource, items, (200,), around, headers)

    def _singleton(self, resource: Resource) -> Answer:
        """Carry out a request on a record that always exists, such as settings."""
        self._check_owners()
        key = self._records.key(resource, self._scope, {}, "-")
        record = self._context.store.get(resource.kind, key)
        if record is not None and GONE in record and self._method not in ("PUT", "POST"):
            raise RequestRefused(404, f"there is no {resource.noun}")
        is_guess = record is None and self._method not in _WRITES
        if record is None or GONE in record:
            source = self._request_source().enriched()
            made = self._api.fitter.fit(resource.node, source=source)
            record = made if isinstance(made, dict) else {}
            set_parents(self._api, resource, record, self._scope)
        if self._method == "DELETE":
            self._context.tick()
            self._records.put(resource, {**record, GONE: True})
            return self._answer_record(resource, record, (204,))
        if self._method in _WRITES:
            return self._update(resource, record)
        headers = {GUESS: "shape"} if is_guess else {}
        return self._answer_record(resource, record, (200,), headers)

    def _act(self, resource: Resource) -> Answer:
        self._check_owners()
        parent_scope = dict(list(self._scope.items())[:-1])
        id = self._request.path[self._info.owners[-1][1]]
        record = self._records.get(resource, parent_scope, id)
        if record is None:
            return self._guess()
        if self._method in _WRITES:
            changed = record_after_action(self._api, self._request, resource, record)
            if changed != record:
                record = self._save(resource, changed, is_new=False)
        _, response = self._operation.success()
        envelope = find_record(self._api.schemas, response.node, resource.noun, resource.node)
        if not is_same(self._api.schemas, envelope.node, resource.node):
            return self._guess()
        return self._answer_record(resource, record, (), {GUESS: "action"})

    def _check_owners(self) -> None:
        """Refuse a path below a parent that does not exist, unless parents cannot be created."""
        for kind, parameter in self._info.owners:
            owner = self._api.resources.by_kind[kind]
            if not owner.is_creatable_first and not self._context.store.count(kind):
                continue
            scope = {name: self._scope[name] for name in owner.parents if name in self._scope}
            id = self._request.path[parameter]
            if self._records.get(owner, scope, id) is None:
                raise RequestRefused(404, f"there is no {owner.noun} {id[:100]}")

    # Answers

    def _guess(self) -> Answer:
        """Answer with the document's own example, or something of the right shape."""
        status, response = self._operation.success()
        content, body = example_of(response), self._request.body
        is_object = content is MISSING or isinstance(content, dict)
        if is_object and isinstance(body, dict) and response.node:
            properties = self._api.schemas.of(response.node).properties
            echo = {name: value for name, value in body.items() if name in properties}
            example = {} if content is MISSING else content
            content = {**example, **echo} or MISSING
        source = self._request_source().enriched()
        return self._api.shaped_answer(status, response, content, source, **{GUESS: "shape"})

    def _answer_record(
        self,
        resource: Resource,
        record: Record,
        statuses: tuple[int, ...],
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        status, response = self._operation.success(*statuses)
        content = record_content(self._api, resource, without_marks(record), response)
        source = self._record_source(resource, record)
        return self._api.shaped_answer(status, response, content, source, **(headers or {}))

    def _answer_records(
        self,
        resource: Resource,
        records: list[Record],
        statuses: tuple[int, ...],
        around: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        status, response = self._operation.success(*statuses)
        envelope = find_list(self._api.schemas, response.node, resource.noun)
        content: Any = MISSING
        if envelope is not None:
            items = []
            for record in records:
                source = self._record_source(resource, record)
                fields = without_marks(record)
                items.append(self._api.fitter.fit(envelope.node, fields, source))
            content = envelope.wrap(items, around)
        source = self._request_source()
        return self._api.shaped_answer(status, response, content, source, **(headers or {}))

    def _record_source(self, resource: Resource, record: Record) -> Source:
        """Return the source of values that are made up for a record."""
        id = self._records.id_of(resource, record)
        return Source(f"{self._context.seed}/{resource.kind}/{id}", self._context.now())

    def _request_source(self) -> Source:
        """Return the source of values that belong to no record."""
        raw = self._request.raw
        digest = hashlib.sha256(raw.body).hexdigest()[:16]
        key = f"{self._context.seed}/{raw.method} {raw.path}?{raw.query} {digest}"
        return Source(key, self._context.now())


def record_content(
    api: OpenApiDescription, resource: Resource, fields: Record, response: Response
) -> Any:
    """Return the body of a response that carries a record."""
    envelope = find_record(api.schemas, response.node, resource.noun, resource.node)
    properties = api.schemas.of(envelope.node).properties
    if properties and not is_same(api.schemas, envelope.node, resource.node):
        fields = {name: value for name, value in fields.items() if name in properties}
    if response.node is not None and api.schemas.of(response.node).main_type == "array":
        return [fields]
    return envelope.wrap(fields)
