"""The vocabulary of Paddock as frozen values: actions, decisions, receipts, events, steps, specs.

Standard library and msgspec only, no I/O, no import of another package: everybody else may use it.
"""
