"""Answers a request out of the store: create, read, list, update, delete, and guesses for what is
none of these."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from paddock.world.context import Context
from paddock_services.openapi.api import GUESS, Answer, Api, example_of
from paddock_services.openapi.asking import Asked, Raw, understand
from paddock_services.openapi.changing import acted, created, own, updated
from paddock_services.openapi.envelope import around, find_list, find_one, is_same
from paddock_services.openapi.fit import MISSING, Source, richer
from paddock_services.openapi.keeping import (
    GONE,
    ID,
    Record,
    adopt,
    bare,
    text_of,
    touch,
)
from paddock_services.openapi.listing import Listing, listed, select
from paddock_services.openapi.problems import Refused, problem
from paddock_services.openapi.records import Records
from paddock_services.openapi.resources import Place, Resource, Role
from paddock_services.openapi.routes import Operation, Response, Route

_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Answering:
    """All that one service answers."""

    def __init__(self, api: Api, context: Context) -> None:
        self.api = api
        self.records = Records(api, context)
        self.context = context

    def answer(self, raw: Raw) -> Answer:
        """All of it happens, or nothing."""
        found = self.api.routes.find(raw.path)
        if found is None:
            return problem(self.api, None, Refused(404, f"there is nothing at {raw.path[:200]}"))
        route, values = found
        operation = route.operations.get(raw.method)
        if operation is None and raw.method == "HEAD":
            operation = route.operations.get("GET")
        if operation is None:
            return self._other_method(raw, route)
        try:
            with self.context.store.transaction():
                asked = understand(self.api, operation, values, raw)
                return self._carry_out(asked, self.api.resources.place(route))
        except Refused as refused:
            return problem(self.api, operation, refused)

    def _other_method(self, raw: Raw, route: Route) -> Answer:
        allowed = ", ".join(sorted(route.operations))
        if raw.method == "OPTIONS":
            return Answer(204, None, {"allow": allowed}, None)
        refused = Refused(405, f"{raw.method[:20]} is not possible here")
        refused.headers["allow"] = allowed
        return problem(self.api, None, refused)

    def _carry_out(self, asked: Asked, place: Place) -> Answer:
        resource, method = place.resource, asked.operation.method
        if resource is None:
            return self._shape(asked)
        match place.role:
            case Role.ITEM:
                return self._item(asked, place, resource)
            case Role.COLLECTION | Role.VIEW if method == "GET":
                return self._list(asked, place, resource)
            case Role.COLLECTION | Role.VIEW if method == "POST":
                return self._create(asked, place, resource)
            case Role.COLLECTION if method in ("PUT", "PATCH"):
                return self._update_by_body(asked, place, resource)
            case Role.COLLECTION if method == "DELETE":
                return self._delete_all(asked, place, resource)
            case Role.SINGLETON:
                return self._single(asked, place, resource)
            case Role.ACTION:
                return self._act(asked, place, resource)
        return self._shape(asked)

    # Items

    def _item(self, asked: Asked, place: Place, resource: Resource) -> Answer:
        if not self._is_kept(resource):
            return self._shape(asked)
        self._check_owners(asked, place)
        id = asked.path[asked.operation.route.segments[-1].strip("{}")]
        record = self.records.get(resource, _scope(asked, place), id)
        method = asked.operation.method
        if record is None:
            if method == "PUT" and self._is_put_to_create(asked.operation, resource):
                return self._create(asked, place, resource, id)
            raise Refused(404, f"there is no {resource.noun} {id[:100]}")
        if method == "DELETE":
            return self._delete(asked, resource, record)
        if method in _WRITES:
            return self._update(asked, resource, record)
        status, response = asked.operation.success(200)
        return self._record(asked, resource, record, status, response)

    def _is_kept(self, resource: Resource) -> bool:
        """Whether there can be records at all. If not, a plausible one is better than none."""
        if resource.is_creatable or resource.is_listed:
            return True
        return bool(self.context.store.count(resource.kind))

    def _is_put_to_create(self, operation: Operation, resource: Resource) -> bool:
        statuses = {one.status for one in operation.responses}
        return "201" in statuses or not self._has_post(resource)

    def _has_post(self, resource: Resource) -> bool:
        return any(
            "POST" in route.operations
            and not route.is_item
            and self.api.resources.place(route).resource is resource
            for route in self.api.routes.all
        )

    def _create(
        self, asked: Asked, place: Place, resource: Resource, id: str | None = None
    ) -> Answer:
        self._check_owners(asked, place)
        status, response = asked.operation.success(201, 200, 202)
        body = own(self.api, asked, resource)
        if isinstance(body, list):
            made = [self._add(asked, place, resource, one, None) for one in body]
            return self._several(asked, resource, made, status, response)
        record = self._add(asked, place, resource, body, id)
        headers = {}
        if status == 201 and id is None and place.role is Role.COLLECTION:
            text = self.records.id_of(resource, record)
            headers["location"] = f"{asked.raw.origin}{asked.raw.path.rstrip('/')}/{text}"
        return self._record(asked, resource, record, status, response, headers)

    def _add(
        self, asked: Asked, place: Place, resource: Resource, body: Any, id: str | None
    ) -> Record:
        record = created(self.api, resource, body)
        scope = _scope(asked, place)
        adopt(self.api, resource, record, scope)
        name = resource.id_name or ID
        if id is not None:
            record[name] = id
        given = record.get(name)
        if given is None or given == "":
            record[name] = self.records.new_id(resource, scope, record)
        elif self.records.get(resource, scope, text_of(given)) is not None:
            raise Refused(409, f"there is a {resource.noun} {str(given)[:100]} already")
        moment = self.context.tick()
        touch(self.api, resource, record, moment, is_new=True)
        return self._keep(resource, record, moment)

    def _keep(self, resource: Resource, record: Record, moment: float) -> Record:
        """Puts a record into the store, with all that its schema requires."""
        ours = {name: value for name, value in record.items() if name.startswith("~")}
        key = f"{self.context.seed}/{resource.kind}/{self.records.id_of(resource, record)}"
        fitted = self.api.fitter.fit(resource.node, bare(record), Source(key, moment))
        kept = {**(fitted if isinstance(fitted, dict) else bare(record)), **ours}
        self.records.put(resource, kept)
        return kept

    def _update(self, asked: Asked, resource: Resource, record: Record) -> Answer:
        changed = updated(self.api, asked, resource, record)
        moment = self.context.tick()
        touch(self.api, resource, changed, moment, is_new=False)
        kept = self._keep(resource, changed, moment)
        status, response = asked.operation.success(200, 201, 202)
        return self._record(asked, resource, kept, status, response)

    def _update_by_body(self, asked: Asked, place: Place, resource: Resource) -> Answer:
        body = own(self.api, asked, resource)
        given = body.get(resource.id_name) if isinstance(body, dict) and resource.id_name else None
        if given is None:
            return self._shape(asked)
        record = self.records.get(resource, _scope(asked, place), text_of(given))
        if record is None:
            raise Refused(404, f"there is no {resource.noun} {str(given)[:100]}")
        return self._update(asked, resource, record)

    def _delete(self, asked: Asked, resource: Resource, record: Record) -> Answer:
        self.context.tick()
        self.records.delete(resource, record)
        status, response = asked.operation.success(204, 200, 202)
        return self._record(asked, resource, record, status, response)

    def _delete_all(self, asked: Asked, place: Place, resource: Resource) -> Answer:
        self._check_owners(asked, place)
        self.context.tick()
        found = self.records.all(resource, _scope(asked, place))
        for record in select(self.api, asked, resource, found):
            self.records.delete(resource, record)
        status, response = asked.operation.success(204, 200, 202)
        return self.api.shaped(status, response, MISSING, self._source(asked))

    # Lists

    def _list(self, asked: Asked, place: Place, resource: Resource) -> Answer:
        status, response = asked.operation.success(200)
        if find_list(self.api.shapes, response.node, resource.noun) is None:
            return self._shape(asked)
        self._check_owners(asked, place)
        found = self.records.all(resource, _scope(asked, place))
        listing = listed(self.api, asked, resource, found)
        return self._page(asked, resource, listing, status, response)

    def _page(
        self, asked: Asked, resource: Resource, listing: Listing, status: int, response: Response
    ) -> Answer:
        headers: dict[str, str] = {}
        declared = {name.lower() for name in response.headers}
        for name in ("x-total-count", "x-total", "total-count"):
            if name in declared:
                headers[name] = str(listing.page.total)
        if "link" in declared and listing.page.has_more and listing.page.next_url:
            headers["link"] = f'<{listing.page.next_url}>; rel="next"'
        said = around(self.api.shapes, response.node, listing.page)
        return self._several(asked, resource, listing.records, status, response, said, headers)

    def _several(
        self,
        asked: Asked,
        resource: Resource,
        records: list[Record],
        status: int,
        response: Response,
        said: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        envelope = find_list(self.api.shapes, response.node, resource.noun)
        given: Any = MISSING
        if envelope is not None:
            fitted = [
                self.api.fitter.fit(envelope.node, bare(one), self._source(asked, resource, one))
                for one in records
            ]
            given = envelope.wrap(fitted, said)
        return self.api.shaped(status, response, given, self._source(asked), **(headers or {}))

    # One record that is always there, and what is done to an item

    def _single(self, asked: Asked, place: Place, resource: Resource) -> Answer:
        self._check_owners(asked, place)
        scope, method = _scope(asked, place), asked.operation.method
        record = self.context.store.get(resource.kind, self.records.key(resource, scope, {}, "-"))
        if record is not None and GONE in record and method not in ("PUT", "POST"):
            raise Refused(404, f"there is no {resource.noun}")
        guess = {GUESS: "shape"} if record is None and method not in _WRITES else {}
        if record is None or GONE in record:
            made = self.api.fitter.fit(resource.node, source=richer(self._source(asked)))
            record = made if isinstance(made, dict) else {}
            adopt(self.api, resource, record, scope)
        if method == "DELETE":
            self.context.tick()
            self.records.put(resource, {**record, GONE: True})
        elif method in _WRITES:
            return self._update(asked, resource, record)
        status, response = asked.operation.success(204 if method == "DELETE" else 200)
        return self._record(asked, resource, record, status, response, guess)

    def _act(self, asked: Asked, place: Place, resource: Resource) -> Answer:
        self._check_owners(asked, place)
        parent = dict(list(_scope(asked, place).items())[:-1])
        record = self.records.get(resource, parent, asked.path[place.owners[-1][1]])
        status, response = asked.operation.success()
        envelope = find_one(self.api.shapes, response.node, resource.noun, resource.node)
        if record is None:
            return self._shape(asked)
        if asked.operation.method in _WRITES:
            changed = acted(self.api, asked, resource, record)
            if changed != record:
                moment = self.context.tick()
                touch(self.api, resource, changed, moment, is_new=False)
                record = self._keep(resource, changed, moment)
        if not is_same(self.api.shapes, envelope.node, resource.node):
            return self._shape(asked)
        return self._record(asked, resource, record, status, response, {GUESS: "action"})

    def _shape(self, asked: Asked) -> Answer:
        """The document's own example, or something of the right shape."""
        status, response = asked.operation.success()
        given = example_of(response)
        if isinstance(given, dict | None) and isinstance(asked.body, dict) and response.node:
            known = self.api.shapes.of(response.node).properties
            echoed = {name: value for name, value in asked.body.items() if name in known}
            given = {**(given or {}), **echoed} or None
        source = richer(self._source(asked))
        given = MISSING if given is None else given
        return self.api.shaped(status, response, given, source, **{GUESS: "shape"})

    def _record(
        self,
        asked: Asked,
        resource: Resource,
        record: Record,
        status: int,
        response: Response,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        envelope = find_one(self.api.shapes, response.node, resource.noun, resource.node)
        known = self.api.shapes.of(envelope.node).properties
        told = bare(record)
        if known and not is_same(self.api.shapes, envelope.node, resource.node):
            told = {name: value for name, value in told.items() if name in known}
        source = self._source(asked, resource, record)
        given = envelope.wrap(told)
        if response.node is not None and self.api.shapes.of(response.node).main_type == "array":
            given = [told]
        return self.api.shaped(status, response, given, source, **(headers or {}))

    def _check_owners(self, asked: Asked, place: Place) -> None:
        """A child of what is not there is not there, unless parents cannot be made at all."""
        scope = _scope(asked, place)
        for kind, parameter in place.owners:
            owner = self.api.resources.by_kind[kind]
            if not owner.is_made_first and not self.context.store.count(kind):
                continue
            above = {name: scope[name] for name in owner.parents if name in scope}
            if self.records.get(owner, above, asked.path[parameter]) is None:
                raise Refused(404, f"there is no {owner.noun} {asked.path[parameter][:100]}")

    def _source(
        self, asked: Asked, resource: Resource | None = None, record: Record | None = None
    ) -> Source:
        """Made-up values follow from the record, or from the request where there is none."""
        if resource is not None and record is not None:
            key = f"{self.context.seed}/{resource.kind}/{self.records.id_of(resource, record)}"
        else:
            raw = asked.raw
            hashed = hashlib.sha256(raw.body).hexdigest()[:16]
            key = f"{self.context.seed}/{raw.method} {raw.path}?{raw.query} {hashed}"
        return Source(key, self.context.now())


def _scope(asked: Asked, place: Place) -> dict[str, str]:
    return {key: asked.path[name] for name, key in place.scope.items() if name in asked.path}
