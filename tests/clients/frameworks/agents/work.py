"""What the agents can do: a program, a request to the payments provider, a file. The frameworks
make their tools of these functions."""

import json
import os
import subprocess
import urllib.error
import urllib.parse
import urllib.request

TASK = "Refund the newest charge of ada@shop.example, as her ticket asks."
PAYMENTS = "https://api.stripe.com"
HEADERS = {"Authorization": "Bearer sk_test_1"}


def take_ticket(number: int) -> str:
    """The text of a ticket, which nobody else takes from now on.

    Args:
        number: Of the ticket.
    """
    command = ["sh", "-c", f"grep -n '' tickets/{number}.txt | tee taken.txt"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def find_charge(email: str) -> str:
    """The newest charge of a customer.

    Args:
        email: Of the customer.
    """
    customers = call("/v1/customers?" + urllib.parse.urlencode({"email": email}))
    charges = call(f"/v1/charges?limit=1&customer={customers['data'][0]['id']}")
    return json.dumps({field: charges["data"][0][field] for field in ("id", "amount")})


def refund(charge: str) -> str:
    """Pays a charge back.

    Args:
        charge: Its id.
    """
    try:
        made = call("/v1/refunds", {"charge": charge})
    except urllib.error.HTTPError as error:
        error.read()
        return json.dumps({"status": "refused", "code": error.code})
    return json.dumps({"status": made["status"], "amount": made["amount"], "id": made["id"]})


def write_note(text: str) -> str:
    """Leaves a note for colleagues.

    Args:
        text: One line.
    """
    os.makedirs("notes", exist_ok=True)
    with open("notes/ada.md", "a") as note:
        note.write(text + "\n")
    return f"{os.path.getsize('notes/ada.md')} bytes"


def call(path: str, fields: dict[str, str] | None = None) -> dict:
    data = None if fields is None else urllib.parse.urlencode(fields).encode()
    request = urllib.request.Request(PAYMENTS + path, data, HEADERS)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)
