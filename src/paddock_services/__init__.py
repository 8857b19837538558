"""The stand-ins that come with Paddock, one package each: payments, mail, chat, forge, tickets,
storage, openapi and postgres.

They are plugins like anybody else's. `pyproject.toml` names each class in the entry-point group
`paddock.services`, and `paddock.world.registry` loads a class when a paddock file names its
service. A package here imports `paddock.world` and what lies below it; nothing in `paddock`
imports this package.
"""
