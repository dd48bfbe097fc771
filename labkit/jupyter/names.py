"""Tab behind ``lk.``, ``lk.plot.``, ``study.`` or ``study.data.``: their names at once, from what they are.

IPython would ask Jedi, which first loads itself and then reads the sources of everything that is imported:
seconds, the first time. Nothing heavy is imported here, nor by asking.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

__all__ = ["matcher_of", "names_matcher", "names_of", "offer", "offer_names"]

_DOTTED = re.compile(r"(?<![\w.\])}\"'])([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\.(\w*)$")
_IDENTIFIER = "labkit.names"


def names_of(before: str, scope: Mapping[str, Any]) -> tuple[list[str], str] | None:
    """Return what may stand behind the last dot."""
    line = before.rpartition("\n")[2]
    found = _DOTTED.search(line)
    if found is None or line.lstrip().startswith(("%", "!", "#", "import ", "from ")):
        return None
    first, *others = found[1].split(".")
    thing = scope.get(first)
    if not _is_ours(thing):
        return None
    for name in others:
        thing = _inside(thing, name)
    if thing is None or (isinstance(thing, ModuleType) and "__dir__" not in vars(thing)):
        return None
    begun = found[2]
    return [name for name in dir(thing) if name.startswith(begun) and (begun or name[0] != "_")], begun


def _is_ours(thing: Any) -> bool:
    """Whether it is a module of labkit, or an object of one of its classes."""
    name = thing.__name__ if isinstance(thing, ModuleType) else type(thing).__module__
    return str(name).partition(".")[0] == "labkit"


def _inside(thing: Any, name: str) -> Any:
    """Return an attribute that is there already: nothing is loaded for it, and no property computes it."""
    if isinstance(thing, ModuleType):
        return getattr(thing, name) if name in getattr(thing, "_MODULES", ()) else None
    return getattr(thing, "__dict__", {}).get(name) if _is_ours(thing) else None


def matcher_of(identifier: str, kind: str, find: Callable[[str], tuple[list[str], str] | None]) -> Any:
    """Return a matcher that IPython asks before Jedi, and alone where it knows the answer."""
    from IPython.core.completer import (
        CompletionContext,
        SimpleCompletion,
        SimpleMatcherResult,
        context_matcher,
    )

    def matcher(context: CompletionContext) -> SimpleMatcherResult:
        found = find(context.text_until_cursor)
        if found is None:
            return {"completions": []}
        words, begun = found
        return {
            "completions": [SimpleCompletion(text=word, type=kind) for word in words],
            "matched_fragment": begun,
            "suppress": True,
            "ordered": True,
        }

    return context_matcher(identifier=identifier)(matcher)


def names_matcher(shell: Any) -> Any:
    """Return the matcher of names behind a dot."""

    def find(before: str) -> tuple[list[str], str] | None:
        found = names_of(before, shell.user_ns)
        return found if found and found[0] else None

    return matcher_of(_IDENTIFIER, "name", find)


def offer(shell: Any, matcher: Any) -> None:
    """Let a shell ask a matcher, once."""
    matchers = getattr(getattr(shell, "Completer", None), "custom_matchers", None)
    known = [getattr(one, "matcher_identifier", "") for one in matchers or []]
    if matchers is not None and matcher.matcher_identifier not in known:
        matchers.append(matcher)


def offer_names() -> None:
    """Offer them in the running IPython, once."""
    from IPython import get_ipython

    shell: Any = get_ipython()
    if shell is not None:
        offer(shell, names_matcher(shell))
