"""Measurements of stand-ins and their stores, called from inside a sandbox."""
