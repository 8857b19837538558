import time
from datetime import UTC, datetime

from wire import ask

print(ask(f"it is {datetime.now(UTC).isoformat()}")[:8])
print(ask(f"unix {time.time()} and {int(time.time() * 1000)}")[:8])
time.sleep(0.05)
print(ask("later", metadata={"user_id": "u", "sent_at": datetime.now().isoformat()})[:8])
