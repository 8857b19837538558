"""Runs in every Python inside a sandbox with a network: packages that bring their own roots trust
the sandbox's door besides them. Standard library only; knows nothing of Paddock's code.

Nothing is imported before a program imports `ssl` itself, so that no start gets slower.
"""

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

_HERE = __file__.rpartition("/")[0]
_CA = "/run/paddock/ca.pem"


class _OnSsl:
    """Finds `ssl` as usual, and completes it once it is loaded."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != "ssl":
            return None
        # It stays in place: some only ask where `ssl` is, and some load it again.
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module):
                load(module)
                _complete(module)

            spec.loader.exec_module = exec_module
        return spec


def _complete(ssl):
    load = ssl.SSLContext.load_verify_locations

    def load_verify_locations(self, cafile=None, capath=None, cadata=None):
        load(self, cafile, capath, cadata)
        try:
            load(self, _CA)
        except (OSError, ssl.SSLError):
            pass  # there is no door, or the context has it already

    ssl.SSLContext.load_verify_locations = load_verify_locations


def _go_on():
    """The file of this name that would have run without this one."""
    spec = PathFinder.find_spec("sitecustomize", [p for p in sys.path if p != _HERE])
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


sys.meta_path.insert(0, _OnSsl)
_go_on()
