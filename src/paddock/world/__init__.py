"""The world: stand-ins with state that answer in place of real systems.

`World` (`world.py`) opens the stand-ins of a run. Each is a `Service` (`service.py`), found by name
(`registry.py`), with a `Context` (its `Store`, a clock, randomness) and usually an ASGI app,
which the network door calls (`asgi.py`). Nothing in a world opens a connection to the outside: code
that is not Paddock's own runs in a pen (`pen/`). The same seed and the same requests give the same
state, and each change is logged with its step, so a world can be forked, reset and compared.

After the run, `saved_worlds` reads the stores again, `checkpoint` restores them for a fork, and
`verdicts` judges how the agent reacted to injected faults. `seeds/` makes initial data, `overlay/`
lays captured writes over real reads (for the service `draft`), `fidelity/` measures how close a
stand-in is to the real service, and `kit/` is for authors of services.
"""
