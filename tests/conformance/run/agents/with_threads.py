import threading
from concurrent.futures import ThreadPoolExecutor

from wire import ask

lock, told = threading.Lock(), []


def work(name):
    said = ask(f"{name}: begin")
    for number in range(3):
        said = ask(f"{name}.{number}: {said[:14]}")
        with lock:
            told.append(f"{name}.{number}")
    return said


with ThreadPoolExecutor(4) as pool:
    results = list(pool.map(work, ["a", "b", "c", "d"]))
print(ask(" ".join(one[:12] for one in results)), len(told))
