"""stepmap: from a mechanical system to its one-step variational map, and from there to a running robot.

The names of stepmap.api are loaded when the first of them is used: the command line must be able to handle signals
before its imports begin, and those take most of a second.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from stepmap.api import *  # noqa: F403
    from stepmap.api import __all__ as __all__
else:

    def __getattr__(name: str) -> Any:
        import sys
        from importlib import import_module

        # While the API itself is imported its modules look for each other here; they are found as submodules.
        loading = "stepmap.api" in sys.modules and not hasattr(sys.modules["stepmap.api"], "__all__")
        if loading or (name.startswith("_") and name != "__all__"):
            raise AttributeError(f"module 'stepmap' has no attribute {name!r}")
        api = import_module("stepmap.api")
        if name != "__all__" and name not in api.__all__:
            raise AttributeError(f"module 'stepmap' has no attribute {name!r}")
        globals().update({"__all__": api.__all__}, **{known: getattr(api, known) for known in api.__all__})
        return globals()[name]

    def __dir__() -> list[str]:
        return [*__getattr__("__all__"), "__version__"]
