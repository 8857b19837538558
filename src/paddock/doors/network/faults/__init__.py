"""Faults on purpose, as far as they concern requests.

`layers` has what a fault does to an answer, as layers around the exchange. `stale_answers` keeps
earlier answers for the fault that repeats one of them. `execution` applies both to whoever answers
a request, who does not know of it.
"""
