"""A run in formats that other programs read; `formats` has the list of them."""
