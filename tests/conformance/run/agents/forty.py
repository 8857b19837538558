"""Forty steps that change files and the world."""

import os
import subprocess

from wire import ask, pay

said, customers = "begin", []
for number in range(10):
    said = ask(f"{number}: {said[-30:]}")
    with open(f"page{number % 4}.txt", "a") as page:
        page.write(said + "\n")
    customers.append(pay("POST", "/v1/customers", name=said[:12])["id"])
    subprocess.run(
        [
            "sh",
            "-c",
            f"echo {number} >>log.txt; mkdir -p d{number % 3}; touch d{number % 3}/f{number}",
        ],
        check=True,
    )
    if number % 3 == 2:
        os.remove(f"d{number % 3}/f{number}")
    pay("GET", f"/v1/customers/{customers[-1]}")
print(len(customers))
