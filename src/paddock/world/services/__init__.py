"""The stand-ins that are part of the core, one package each: `app`, `command`, `draft` and `model`.
The others are in `paddock_services`. Nothing imports a stand-in before it is used."""
