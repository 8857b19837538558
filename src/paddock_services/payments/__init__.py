"""The payments stand-in: one account at a payments provider, in Stripe's shape.

A request comes to `PaymentsApi` (`api.py`), on the kit: it checks the key, decodes the form, looks
up an operation by method and path, refuses parameters that the operation does not have, and runs
its function in a transaction. A function takes the `Account` and the parameters and returns the
document to show. All documents are in the store, one kind for each collection of the API, and
every change of one records an event.

- `account.py`: reads and writes documents, makes ids and events.
- `documents.json`: an empty document of each kind. `parameters.json`: what each operation accepts.
- `form.py`, `params.py`: parameters with brackets, read as what they ought to be.
- `customers.py` to `events.py`: the operations, by collection. `balance.py` has the money.
- `lists.py`, `search.py`, `expansion.py`: pages, searches, and ids replaced by what they name.
- `seed.py`, `invariants.py`, `overview.py`: how an account begins, what must hold, what is shown.
"""

from paddock_services.payments.service import Payments

__all__ = ["Payments"]
