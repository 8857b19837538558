"""Any OpenAPI 3 document as a stand-in: what it describes can be created, read, listed, changed and
deleted, with answers that are valid against it."""

from paddock_services.openapi.service import OpenApi

__all__ = ["OpenApi"]
