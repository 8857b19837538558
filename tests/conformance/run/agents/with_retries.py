import random
import time
import urllib.error
import uuid

from wire import ask, pay


def again(work):
    for _ in range(5):
        try:
            return work()
        except (urllib.error.HTTPError, ConnectionError, urllib.error.URLError, OSError) as error:
            print("again after", type(error).__name__)
            time.sleep(0.01 + random.random() / 50)
    raise SystemExit("gave up")


key = str(uuid.uuid4())
charge = again(
    lambda: pay("POST", "/v1/charges", key=key, amount="1200", currency="usd", source="tok_visa")
)
refund = again(lambda: pay("POST", "/v1/refunds", charge=charge["id"], amount="200"))
try:
    pay("DELETE", "/v1/customers/cus_x")
except urllib.error.HTTPError as error:
    print("refused", error.code, b"Nothing is deleted" in error.read())
print(ask(f"charged {charge['amount']} refunded {refund['amount']}"))
