"""Captured writes laid over real reads, as pure functions on parsed JSON.

Nothing here stores or sends anything; `services/draft` does that with these parts. A write is first
classified (`rules`: does the request write at all; `targets`: does it create, change or delete, and
what). A created record gets the shape of its siblings (`new_record`, `ids`, `times`), a change is a
patch (`patches`). For a read, `shapes` finds the records in the answer; `list_query` and `pages`
tell whether a record belongs on the page that was asked for, and where.
"""
