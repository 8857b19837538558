"""Measurements of the network door, beside a direct connection and mitmdump."""
