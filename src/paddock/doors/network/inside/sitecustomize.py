"""Runs in every Python inside a sandbox with a network, and in every run. Packages that bring their
own roots trust the sandbox's door besides them; `paddock.inside` is there where Paddock is not
installed; with PADDOCK_SEED chance can be had again, and with FAKETIME a program can still sleep.
Standard library only; knows nothing of Paddock's code.

Nothing is imported before a program imports it itself, so that no start gets slower, and nothing
that fails here keeps a program from running.
"""

import sys

try:  # what the interpreter has loaded to get this far; `importlib.util` loads much more
    from _frozen_importlib import ModuleSpec, module_from_spec
    from _frozen_importlib_external import PathFinder, SourceFileLoader
except ImportError:
    from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
    from importlib.util import module_from_spec

_HERE = __file__.rpartition("/")[0]
_CA = "/run/paddock/ca.pem"
_INSIDE = _HERE + "/paddock_inside.py"
_HOOKS: dict = {}  # by module, what is done to it once it is loaded


class _OnLoading:
    """Finds some modules as usual, and completes them once they are loaded."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name not in _HOOKS:
            return None
        # It stays in place: some only ask where a module is, and some load it again.
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            cls._complete(name, spec.loader)
        return spec

    @staticmethod
    def _complete(name, loader):
        load = loader.exec_module

        def exec_module(module):
            load(module)
            try:
                _HOOKS[name](module)
            except Exception:  # noqa: S110
                pass  # it is as it would be without us

        loader.exec_module = exec_module


class _Inside:
    """Finds `paddock.inside`, after everybody else has found none."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name == "paddock":
            return ModuleSpec(name, cls, is_package=True)
        if name == "paddock.inside":
            spec = ModuleSpec(name, SourceFileLoader(name, _INSIDE), origin=_INSIDE)
            spec.has_location = True
            return spec
        return None

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        def missing(name):
            raise AttributeError("only paddock.inside is here; Paddock is not installed: " + name)

        module.__getattr__ = missing


def _trust(ssl):
    load = ssl.SSLContext.load_verify_locations

    def load_verify_locations(self, cafile=None, capath=None, cadata=None):
        load(self, cafile, capath, cadata)
        try:
            load(self, _CA)
        except (OSError, ssl.SSLError):
            pass  # there is no door, or the context has it already

    ssl.SSLContext.load_verify_locations = load_verify_locations


def _begin():
    import os

    _HOOKS["ssl"] = _trust
    sys.meta_path.insert(0, _OnLoading)
    if "PADDOCK_INSIDE" in os.environ:
        sys.meta_path.append(_Inside)
    if "FAKETIME" in os.environ:
        _mend_sleep()
    if "PADDOCK_SEED" in os.environ:
        import paddock_chance

        paddock_chance.begin(_HOOKS)


def _mend_sleep():
    """libfaketime refuses to wait until a moment of the clock that it leaves alone."""
    import time

    real = time.sleep

    def sleep(seconds, /):
        try:
            real(seconds)
        except OSError:
            import select

            select.select([], [], [], seconds)

    time.sleep = sleep


def _go_on():
    """The file of this name that would have run without this one."""
    spec = PathFinder.find_spec("sitecustomize", [p for p in sys.path if p != _HERE])
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


try:
    _begin()
except Exception:  # noqa: S110
    pass
_go_on()
