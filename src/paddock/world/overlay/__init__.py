"""The shadow of writes over real reads: pure functions on parsed JSON. Nothing here stores or
sends anything."""
