"""Requests that were captured as drafts, sent for real after a person agreed.

`request` reads a request back from a draft's arguments, `shadow_ids` puts real ids in place of
those that a stand-in gave out, and `delivery` sends the request through the door's own execution.
"""
