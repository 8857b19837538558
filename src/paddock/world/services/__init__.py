"""The stand-ins that come with Paddock, one package each. Nothing imports them before they are
used."""
