from wire import ask, pay

said = "begin"
for number in range(6):
    said = ask(f"{number}: {said[-40:]}")
    with open("notes.txt", "a") as notes:
        notes.write(said + "\n")
customer = pay("POST", "/v1/customers", email="a@example.com", name=said[:20])
print(pay("GET", f"/v1/customers/{customer['id']}")["email"], len(said))
