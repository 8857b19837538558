"""Chance that can be had again: in a sandbox with PADDOCK_SEED, `os.urandom` and all that Python
builds on it (uuid4, secrets, SystemRandom, names of temporary files) and `random` come from a
keyed stream. Standard library only; knows nothing of Paddock's code.

A stream belongs to a place, not to a moment: process, thread, task, piece of work for a pool. So
those that race draw the same bytes whoever is first. Where a place cannot be told, bytes are drawn
from a stream of its own all the same; where anything is odd, the real source answers.
"""

import os
import sys

try:
    from _sha2 import sha256  # `hashlib` loads OpenSSL, which takes longer than all of this
except ImportError:
    try:
        from _sha256 import sha256
    except ImportError:
        from hashlib import sha256
from _thread import _local, get_ident

# The seed, the pid of who handed it down, and the number of the network card: 64 hexadecimal
# digits, decimal ones, 12 hexadecimal ones. The first program has only the seed.
NAME = "PADDOCK_SEED"
_MAX_ANCESTORS = 100
_BLOCK = 32  # bytes of one SHA-256
_LARGE = 8 * _BLOCK  # what is drawn beyond this comes from one SHAKE128, as fast as the kernel's
_ENVS_AT = 5  # among the arguments of fork_exec, in every version
_real_urandom = os.urandom


def derived(key, *parts):
    """Another key, for each list of parts its own."""
    hashed = sha256(key)
    for part in parts:
        raw = part if isinstance(part, bytes) else str(part).encode("utf-8", "replace")
        hashed.update(b"%d:" % len(raw) + raw)
    return hashed.digest()


class RandomStream:
    """Bytes and keys of one place, one after the other."""

    def __init__(self, key):
        self.key = key
        self.blocks = 0
        self.given = {}  # how many keys of each kind
        self._start = sha256(key + b"5:bytes")  # of every block: what `derived` begins with

    def take(self, size):
        if size > _LARGE:
            return self._take_large(size)
        taken = b""
        while len(taken) < size:
            # The same as `derived(self.key, b"bytes", self.blocks)`, in half the time.
            digits = b"%d" % self.blocks
            hashed = self._start.copy()
            hashed.update(b"%d:%b" % (len(digits), digits))
            taken += hashed.digest()
            self.blocks += 1
        return taken[:size]

    def _take_large(self, size):
        from hashlib import shake_128  # loads OpenSSL, which few programs need for this

        number, self.blocks = self.blocks, self.blocks + 1
        return shake_128(derived(self.key, b"large", number)).digest(size)

    def next_key(self, kind):
        self.given[kind] = number = self.given.get(kind, 0) + 1
        return derived(self.key, kind, number)


class RandomStreams:
    """The process that this is, and the streams in it."""

    def __init__(self, key):
        self.begin(key)

    def begin(self, key):
        self.main = RandomStream(key)
        self.main_ident = get_ident()
        self.local = _local()
        self.tasks = None
        self.unknown = 0

    def stream(self):
        task = _running_task() if "asyncio" in sys.modules else None
        return self.of_thread() if task is None else self._of_task(task)

    def of_thread(self):
        try:
            stream = self.local.stream
        except AttributeError:
            stream = None
        if stream is None:
            stream = self.local.stream = self._begun()
        return stream

    def _begun(self):
        if get_ident() == self.main_ident:
            return self.main
        threading = sys.modules.get("threading")
        thread = getattr(threading, "_active", {}).get(get_ident())
        key = getattr(thread, "_paddock_key", None)
        if key is None:  # it was started by other means than `threading`
            self.unknown += 1
            key = derived(self.main.key, b"unknown", self.unknown)
        return RandomStream(key)

    def _of_task(self, task):
        if self.tasks is None:
            from weakref import WeakKeyDictionary

            self.tasks = WeakKeyDictionary()
        stream = self.tasks.get(task)
        if stream is None:
            # The name has the number of the task, in order of creation, where nobody gave one.
            kind = b"task " + task.get_name().encode("utf-8", "replace")
            stream = self.tasks[task] = RandomStream(self.of_thread().next_key(kind))
        return stream


def _running_task():
    asyncio = sys.modules.get("asyncio")
    loop_of = getattr(asyncio, "_get_running_loop", None)
    loop = None if loop_of is None else loop_of()
    return None if loop is None else asyncio.current_task(loop)


def begin(hooks):
    """Puts the stream in place. `hooks`: by module, what is to be done once it is loaded."""
    seed, _, handed = os.environ[NAME].partition(":")
    by, _, node = handed.partition(":")
    raw = bytes.fromhex(seed)
    node = int(node, 16) if node else _node(raw)
    streams = RandomStreams(_key_of(raw, by))
    _replace_sources(streams)
    _hand_down(streams, node)
    hooks["random"] = lambda module: _seed_random(module, streams)
    hooks["uuid"] = lambda module: _fix_node(module, node)
    hooks["threading"] = lambda module: _number_threads(module, streams)
    hooks["concurrent.futures.thread"] = lambda module: _number_work(module, streams)
    for name in [name for name in hooks if name in sys.modules]:
        hooks[name](sys.modules[name])


def _node(seed):
    return int.from_bytes(derived(seed, b"node")[:6], "big") | 1 << 40  # so no real card has it


def _key_of(raw, by):
    pid, parent = os.getpid(), os.getppid()
    # The first program has it from nobody: its host starts it in a session of its own.
    is_first = not by and parent <= 1 and os.getsid(0) == pid
    if is_first or by in (str(pid), str(parent)):
        return derived(raw, b"process")
    # A shell is between: it gives one variable to all its programs. Counted from the shell, their
    # numbers are the same again, whatever was started before it.
    top = _below(parent, int(by or 1))
    if top is None or (not by and os.getsid(top) != top):
        return derived(raw, b"astray", pid - int(by or 1))
    return derived(raw, b"inherited", pid - top)


def _below(pid, handed):
    """The ancestor, from here on, that is a child of who handed the seed down."""
    for _ in range(_MAX_ANCESTORS):
        with open(f"/proc/{pid}/stat", "rb") as file:
            parent = int(file.read().rpartition(b")")[2].split()[1])
        if parent == handed:
            return pid
        if parent <= 1:
            return None
        pid = parent
    return None


def _replace_sources(streams):
    real_getrandom = getattr(os, "getrandom", None)

    def urandom(size, /):
        """Bytes of this sandbox's own stream."""
        try:
            return streams.stream().take(size.__index__()) if size >= 0 else _real_urandom(size)
        except Exception:
            return _real_urandom(size)

    def getrandom(size, flags=0):
        """Bytes of this sandbox's own stream."""
        return urandom(size) if not flags else real_getrandom(size, flags)

    os.urandom = urandom
    if real_getrandom is not None:
        os.getrandom = getrandom


def _hand_down(streams, node):
    """Gives each child process a seed of its own."""

    def seed(kind):
        return f"{streams.stream().next_key(kind).hex()}:{os.getpid()}:{node:012x}"

    def before_fork():
        try:
            streams.local.child = streams.stream().next_key(b"fork")
        except Exception:
            streams.local.child = None

    def in_child():
        key = getattr(streams.local, "child", None)
        streams.begin(key if key is not None else _real_urandom(32))

    os.register_at_fork(before=before_fork, after_in_child=in_child)
    _wrap_spawning(seed)
    _wrap_exec(seed)


def _wrap_spawning(seed):
    import _posixsubprocess

    fork_exec = _posixsubprocess.fork_exec

    def handing_down(*args):
        return fork_exec(*_with_envs(args, seed))

    _posixsubprocess.fork_exec = handing_down
    for name in ("posix_spawn", "posix_spawnp"):
        real = getattr(os, name, None)
        if real is not None:
            setattr(os, name, _spawning(real, seed))


def _with_envs(args, seed):
    try:
        listed = args[_ENVS_AT]
        if listed is None:
            listed = [key + b"=" + value for key, value in os.environb.items()]
        start = NAME.encode() + b"="
        envs = [start + seed(b"child").encode() if e.startswith(start) else e for e in listed]
        return (*args[:_ENVS_AT], envs, *args[_ENVS_AT + 1 :])
    except Exception:
        return args


def _spawning(real, seed):
    def spawn(path, argv, env, **more):
        envs = os.environ if env is None else env  # None since 3.13
        return real(path, argv, _with_seed(envs, seed, b"child"), **more)

    return spawn


def _wrap_exec(seed):
    real = os.execve

    def execve(path, argv, env):
        real(path, argv, _with_seed(env, seed, b"exec"))

    def execv(path, argv):
        execve(path, argv, os.environ)

    os.execve, os.execv = execve, execv


def _with_seed(env, seed, kind):
    try:
        return {**env, NAME: seed(kind)} if NAME in env else env
    except Exception:
        return env


def _seed_random(random, streams):
    real = random.Random.seed

    def seed(self, a=None, version=2):
        """Without a value, from this sandbox's own stream."""
        if a is None:
            a = int.from_bytes(os.urandom(32), "big")
        return real(self, a, version)

    def reseed():
        random._inst.seed(int.from_bytes(derived(streams.main.key, b"random"), "big"))

    random.Random.seed = seed
    random.seed = random._inst.seed
    random._urandom = os.urandom
    reseed()
    os.register_at_fork(after_in_child=reseed)


def _fix_node(uuid, node):
    """A sandbox has no card whose number could be read, and a real one would tell of the host."""
    uuid._node = node
    uuid._generate_time_safe = None


def _number_threads(threading, streams):
    real = threading.Thread.start

    def start(self):
        try:
            self._paddock_key = streams.stream().next_key(b"thread")
        except Exception:  # noqa: S110
            pass  # it has a stream of its own all the same
        return real(self)

    threading.Thread.start = start


def _number_work(thread, streams):
    """Which thread of a pool gets a piece of work is chance; the piece has its own stream."""
    begin_item, run_item = thread._WorkItem.__init__, thread._WorkItem.run

    def __init__(self, *args, **kwargs):
        begin_item(self, *args, **kwargs)
        try:
            self._paddock_key = streams.stream().next_key(b"work")
        except Exception:  # noqa: S110
            pass  # it has a stream of its own all the same

    def run(self, *args, **kwargs):
        before, key = getattr(streams.local, "stream", None), getattr(self, "_paddock_key", None)
        if key is not None:
            streams.local.stream = RandomStream(key)
        try:
            return run_item(self, *args, **kwargs)
        finally:
            streams.local.stream = before

    thread._WorkItem.__init__, thread._WorkItem.run = __init__, run
