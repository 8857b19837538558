"""A driver that isolates nothing, for tests: the guest is an ordinary process of this host.

It offers the real guest over a real channel, so that doors can be tested without namespaces, groups
or root. Programs that it runs are programs of the host with all rights of the caller. So it is in
no registry: no file, flag or variable can choose it, only a test that passes `FakeDriver` to a
constructor. It refuses every spec that asks for more than the defaults, says in `enforcement` that
nothing is enforced, and declares what it lacks.
"""

from paddock.fence.fake.driver import FakeDriver, FakeMachine

__all__ = ["FakeDriver", "FakeMachine"]
