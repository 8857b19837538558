"""Any OpenAPI 3 document as a service with state.

At load time the document is read within bounds (`document`), its schemas are flattened (`schemas`),
its paths become routes with operations (`routes`), and the routes are grouped into resources: which
paths are collections, items of them, views or actions (`resources`). `api.Api` holds all of this.

A request is parsed and checked against its operation (`request`, with `validation` on top of the
library jsonschema), and then carried out on the records in the store (`handler`, `records`,
`lists`). The answer takes the shape that the document declares: `envelope` finds the place of the
record in it, and `generation` fills in whatever the schema requires and nobody sent. Errors use the
document's own error schema (`errors`). `plausible` answers single requests without any state.
"""

from paddock_services.openapi.service import OpenApi

__all__ = ["OpenApi"]
