"""Stripe's own library: a subscription in arrears is charged, with keys that it makes up, retries
after errors, pages of a list, and threads."""

import json
import os
import uuid
from concurrent.futures import ThreadPoolExecutor

import stripe

stripe.api_key = os.environ["STRIPE_KEY"]
stripe.max_network_retries = 2


def charge(customer):
    paid = stripe.PaymentIntent.create(
        amount=1200,
        currency="usd",
        customer=customer.id,
        payment_method="pm_card_visa",
        confirm=True,
        automatic_payment_methods={"enabled": True, "allow_redirects": "never"},
        idempotency_key=str(uuid.uuid4()),
        metadata={"invoice": uuid.uuid4().hex},
    )
    with open(f"paid-{customer.name}.json", "w") as file:
        json.dump({"customer": customer.id, "status": paid.status}, file)
    return paid


customers = list(stripe.Customer.list(limit=2).auto_paging_iter())
print([customer.name for customer in customers])
with ThreadPoolExecutor(2) as threads:
    payments = list(threads.map(charge, customers))
try:
    stripe.Refund.create(payment_intent=payments[0].id, amount=999_999)
except stripe.InvalidRequestError as error:
    print("refused", error.http_status)
back = stripe.Refund.create(payment_intent=payments[0].id, amount=200)
report = f"{len(payments)} paid, {back.amount} back: {back.id}\n"
print(report, end="")
with open("report.txt", "w") as file:
    file.write(report)
