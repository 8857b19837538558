import os
import random
import secrets
import tempfile
import threading
import uuid

from wire import ask

words = {f"word{n}" for n in range(20)}
print(ask(f"{random.random()} {random.choice(range(1000))} {uuid.uuid4()} {secrets.token_hex(8)}"))
print(ask(" ".join(words)))  # in the order of their hashes
print(ask(os.urandom(8).hex() + tempfile.mktemp()))
found = []
thread = threading.Thread(
    target=lambda: found.append(ask(f"in a thread {random.Random().random()}"))
)
thread.start()
thread.join()
random.shuffle(order := list(range(30)))
print(ask(str(order)), len(found))
