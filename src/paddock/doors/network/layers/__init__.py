"""Layers around an exchange, which an answer passes on its way to the client."""
