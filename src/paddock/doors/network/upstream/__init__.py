"""Who answers a request: the real server, a stand-in, or the record of an earlier run."""
