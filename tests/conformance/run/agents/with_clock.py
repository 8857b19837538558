import time
from datetime import datetime, timezone

from wire import ask

print(ask(f"it is {datetime.now(timezone.utc).isoformat()}")[:8])
print(ask(f"unix {time.time()} and {int(time.time() * 1000)}")[:8])
time.sleep(0.05)
print(ask("later", metadata={"user_id": "u", "sent_at": datetime.now().isoformat()})[:8])
