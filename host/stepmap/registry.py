"""Things found by name: stepmap's own first, then those that other packages add by entry points of a group."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from stepmap.errors import ModelError
from stepmap.text import nearest

T = TypeVar("T")


class UnknownNameError(ModelError):
    """A name under which nothing is registered."""


class BrokenEntryError(ModelError):
    """An entry of another package that cannot be loaded."""


class Registry(Generic[T]):
    """What is registered in a group of entry points; ``noun`` is what messages call one of them.

    ``own`` tells the names of stepmap's own, and ``load`` gives one of them: no other package replaces these.
    """

    def __init__(self, group: str, noun: str, own: Callable[[], Collection[str]], load: Callable[[str], T]) -> None:
        self.group, self.noun = group, noun
        self._own, self._load = own, load

    @classmethod
    def of(cls, group: str, noun: str, own: Mapping[str, T]) -> Registry[T]:
        """A registry whose own members are at hand."""
        return cls(group, noun, own.keys, own.__getitem__)

    def names(self) -> list[str]:
        """Everything that is installed, sorted."""
        return sorted({*self._own(), *(entry.name for entry in entry_points(group=self.group))})

    def is_own(self, name: str) -> bool:
        return name in self._own()

    def added(self, name: str) -> EntryPoint | None:
        """The entry point of another package; None for stepmap's own and for what is not there."""
        return None if self.is_own(name) else next(iter(entry_points(group=self.group, name=name)), None)

    def get(self, name: str) -> T:
        """The member of that name; raises UnknownNameError or BrokenEntryError, both ModelErrors."""
        if self.is_own(name):
            return self._load(name)
        entry = self.added(name)
        if entry is None:
            raise UnknownNameError(f"no {self.noun} is called {name!r}", hint=nearest(str(name), self.names()))
        return self._loaded(entry)

    def _loaded(self, entry: EntryPoint) -> T:
        try:
            loaded: T = entry.load()
            if not callable(loaded):
                raise TypeError(f"expected a class or a function, got {type(loaded).__name__}")
        except (Exception, SystemExit) as error:  # whatever another package does while it is imported
            raise BrokenEntryError(
                f"{self.noun} {entry.name!r}{owner(entry)} ({entry.value}) cannot be loaded",
                cause=f"{type(error).__name__}: {error}",
                hint="Reinstall that package, or remove it.",
            ) from error
        return loaded


def owner(entry: EntryPoint) -> str:
    """ " of toys" for an entry point of the distribution toys; nothing where that is not known."""
    return f" of {entry.dist.name}" if entry.dist is not None else ""
