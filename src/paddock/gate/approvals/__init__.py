"""Questions that wait for a person, and everything around an answer.

`request` puts a question into the store (`questions`) and waits for the first answer. People see it
as `question_text` and answer at the terminal (`terminal`, `terminal_dialog`, `tty`) or from another
process. An answer may change arguments (`argument_edits`) or ask for a rule (`proposals`, from the
`call_pattern` of the call). `statistics` counts answers by rule.
"""

from paddock.gate.approvals.questions import (
    APPROVED,
    DENIED,
    EDITED,
    EXPIRED,
    PENDING,
    WITHDRAWN,
    YES,
    Approval,
    Approvals,
    Question,
    asked_by,
    digest_of,
    why_no,
)

__all__ = [
    "APPROVED",
    "DENIED",
    "EDITED",
    "EXPIRED",
    "PENDING",
    "WITHDRAWN",
    "YES",
    "Approval",
    "Approvals",
    "Question",
    "asked_by",
    "digest_of",
    "why_no",
]
