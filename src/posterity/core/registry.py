"""Things by name: the library's own, what a program registers, what installed packages offer.

A package offers a model, say, as an entry point of the group `posterity.models`, in its pyproject.toml:

    [project.entry-points."posterity.models"]
    theirs = "their_package.networks:theirs"

It is imported when its name is first looked up, and not before: a package that does not import disturbs nobody else.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from typing import Any, TypeVar

from posterity.core.errors import PosterityError, UnknownNameError, UsageError, unknown_name

T = TypeVar("T")


class PluginError(PosterityError):
    """An installed package offers something that cannot be had."""


class Registry(dict[str, T]):
    """What is known of one `kind`, by name; iteration gives what this process has, `in` and [] also find packages'.

    `take` makes what is kept of what is offered from outside, or refuses it.
    """

    def __init__(self, kind: str, group: str, own: dict[str, T], take: Callable[[str, Any], T]) -> None:
        super().__init__(own)
        self.kind, self.group, self.own, self._take = kind, f"posterity.{group}", tuple(own), take

    def register(self, name: str, thing: Any = None) -> Any:
        """Add what a program brings with it, or replace what it brought before; without `thing`, a decorator."""
        if name in self.own:
            raise UsageError(f"the {self.kind} '{name}' is the library's own: give yours another name")
        if thing is None:
            return lambda decorated: self.register(name, decorated)
        self[name] = self._take(name, thing)
        return thing

    def available(self) -> list[str]:
        """All names, those of packages that are not imported yet among them."""
        return sorted({*self, *(point.name for point in metadata.entry_points(group=self.group))})

    def unknown(self, name: str) -> UnknownNameError:
        """An error that lists the names and suggests the nearest."""
        return unknown_name(self.kind, name, self.available())

    def named(self, name: str) -> T:
        """What has that name; an unknown one is refused."""
        if name not in self:
            raise self.unknown(name)
        return self[name]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or self._offered(name) is not None

    def __missing__(self, name: str) -> T:
        point = self._offered(name)
        if point is None:
            raise KeyError(name)
        try:
            self[name] = self._take(name, point.load())
        except Exception as error:  # a package may fail in any way
            package = point.dist.name if point.dist is not None else point.module
            raise PluginError(
                f"the package '{package}' offers the {self.kind} '{name}' ({point.value}), which cannot be had: "
                f"{type(error).__name__}: {error}; mend or uninstall the package"
            ) from error
        return self[name]

    def _offered(self, name: object) -> metadata.EntryPoint | None:
        if not isinstance(name, str):
            return None
        return next(iter(metadata.entry_points(group=self.group, name=name)), None)
