"""``%load_ext labkit``: the magics, registered with the running IPython."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

import labkit
from labkit.errors import MachineError, StudyWarning
from labkit.result.by_rank import PLAIN_NUMBERS

if TYPE_CHECKING:
    from labkit.jupyter.magic import Spmd

__all__ = ["load_ipython_extension", "load_when_called", "unload_ipython_extension"]


#: how IPython reads %%spmd where it is not the first line of its cell: as a line magic of this name
_BELOW = "%spmd"
#: what each shell has loaded
_loaded: dict[int, Spmd] = {}


def load_ipython_extension(shell: Any) -> None:
    """Register labkit's magics.

    `shell`: The running IPython.
    """
    from labkit.jupyter.magic import Spmd, documentation

    if not hasattr(shell, "register_magic_function"):
        raise MachineError(
            "%load_ext labkit needs a running IPython or Jupyter kernel", code="missing-package"
        )
    labkit._show_errors_in_notebooks()
    offer_names()
    show_plain_numbers()
    name_cells_in_warnings()
    spmd = Spmd(shell)

    def magic(line: str, cell: str | None = None) -> None:
        spmd(line, cell)

    magic.__doc__ = documentation()
    shell.register_magic_function(magic, "line_cell", "spmd")
    shell.register_magic_function(_refuse_below, "line", _BELOW)
    offer(shell, matcher(shell))
    shell.events.register("post_run_cell", spmd.tell_of_name)
    shell.input_transformers_cleanup.append(_with_body)
    _loaded[id(shell)] = spmd


def load_when_called() -> None:
    """Let ``%%spmd`` load labkit's extension when it is called first, where nobody has loaded it.

    Tab completion has the line before that.
    """
    from IPython import get_ipython

    shell: Any = get_ipython()
    if not hasattr(shell, "register_magic_function"):
        return
    known = shell.find_cell_magic("spmd")
    if known is not None and not hasattr(known, "is_too_early"):  # what `labkit lab` put there gives way
        return

    def spmd(line: str, cell: str | None = None) -> None:
        """Run a cell on every rank of a machine: loads labkit's extension first."""
        shell.extension_manager.load_extension("labkit")
        if cell is None:
            shell.run_line_magic("spmd", line)
        else:
            shell.run_cell_magic("spmd", line, cell)

    shell.register_magic_function(spmd, "line_cell", "spmd")
    offer(shell, matcher(shell))


def unload_ipython_extension(shell: Any) -> None:
    """Take the magics away, and end the cluster that they started."""
    spmd = _loaded.pop(id(shell), None)
    if spmd is None:
        return
    show_number_types()
    spmd.machines.stop()
    if _with_body in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.remove(_with_body)
    shell.events.unregister("post_run_cell", spmd.tell_of_name)
    own = getattr(getattr(shell, "Completer", None), "custom_matchers", [])
    own[:] = [one for one in own if getattr(one, "matcher_identifier", "") != "labkit.spmd"]
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("spmd", None)
    shell.magics_manager.magics["line"].pop(_BELOW, None)


def _with_body(lines: list[str]) -> list[str]:
    """Give a cell of ``%%spmd`` alone an empty line: IPython refuses a cell magic without a body unheard."""
    words = " ".join(lines).split()
    is_alone = bool(words) and words[0] == "%%spmd" and len([line for line in lines if line.strip()]) == 1
    return [lines[0].rstrip("\n") + "\n", "\n"] if is_alone and lines[0].strip() else lines


def _refuse_below(line: str) -> None:
    """Report where ``%%spmd`` belongs: IPython's own sentence is that there is no such magic."""
    from IPython.core.error import UsageError

    raise UsageError(
        f"%%spmd {line}".rstrip()
        + ": a cell magic is the first line of its cell; put what stands above it into "
        "a separate cell, or below it"
    )


# Completion of the magic's line: machines, models and algorithms behind their options, and the options.


_MAGICS = ("%%spmd", "%spmd")


def completions(before: str, names: Mapping[str, object]) -> list[str] | None:
    """Return what may come next on a line."""
    words = before.split()
    if not words or words[0] not in _MAGICS or before.rstrip() == words[0] == before:
        return None
    from labkit.jupyter.options import option_values  # late: it loads what runs programs

    begun = "" if before[-1].isspace() else words.pop()
    option = words[-1] if len(words) > 1 else ""
    if "=" in begun and begun.startswith("--"):
        option, _, begun = begun.partition("=")
    flags = option_values(words[0] == "%spmd")
    known = _values(option, begun, names) if flags.get(option) else [one for one in flags if len(one) > 2]
    return [one for one in known if one.startswith(begun)]


def _values(option: str, begun: str, names: Mapping[str, object]) -> Iterable[str]:
    """Return the values of an option; none where any may follow."""
    if option == "--on":
        return [*_machines(), *_own_machines(names)]
    if option == "--model":
        from labkit.machines import models

        return models.names()
    if option == "--coll":
        from labkit import registry
        from labkit.schedule.problem import PROBLEMS

        problem, sign, _ = begun.partition("=")
        if sign and problem in registry.problems():
            return [f"{problem}={name}" for name in registry.names(problem)]
        return [f"{name}=" for name in registry.problems() if name in PROBLEMS]
    if option == "--mapping":
        return ["block", "cyclic", "fragmented", "random"]
    if option == "--compute":
        return ["charged", "measured", "recorded:"]
    return []


def _machines() -> list[str]:
    from labkit.launch.run import MACHINES
    from labkit.machines.spec import reader
    from labkit.machines.spec.reader import kinds

    words = [machine.words[0] for machine in MACHINES if machine.words]
    return [*words, *kinds(), *reader.names()]


def _own_machines(names: Mapping[str, object]) -> list[str]:
    """Return the names that hold platforms or clusters."""
    from labkit.jupyter.options import is_own_machine

    return sorted(name for name, value in names.items() if not name.startswith("_") and is_own_machine(value))


def matcher(shell: Any) -> Any:
    """Return the matcher of the magic's lines."""

    def find(before: str) -> tuple[list[str], str] | None:
        found = completions(before, shell.user_ns)
        return None if found is None else (sorted(found), before.split(" ")[-1])

    return matcher_of("labkit.spmd", "magic", find)


# Numbers of NumPy as a notebook shows them: 3, not np.int64(3), in lists and tuples, printed or returned.


def show_plain_numbers() -> None:
    """Let NumPy write its numbers without their types in the running IPython, unless print options are set.

    Values stay what they are. ``numpy.set_printoptions(legacy=False)`` brings the types back.
    """
    from IPython import get_ipython

    if get_ipython() is None:
        return
    import numpy

    if numpy.get_printoptions()["legacy"] is False:
        numpy.set_printoptions(legacy=PLAIN_NUMBERS)


def show_number_types() -> None:
    """Undo `show_plain_numbers`."""
    import numpy

    if numpy.get_printoptions()["legacy"] == PLAIN_NUMBERS:
        numpy.set_printoptions(legacy=False)


# labkit's warnings as a notebook shows them: a sentence and the cell, not the path of a temporary file.


def name_cells_in_warnings() -> None:
    """Let labkit's own warnings name the cell that they belong to, in the running IPython."""
    from IPython import get_ipython

    before: Any = warnings.formatwarning
    if get_ipython() is None or getattr(before, "names_cells", False):
        return

    def written(
        message: object, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        if not issubclass(category, StudyWarning):
            return str(before(message, category, filename, lineno, line))
        from labkit.jupyter.failure import cell_name

        return f"{category.__name__}: {message} ({cell_name(get_ipython(), filename)}, line {lineno})\n"

    written.names_cells = True  # type: ignore[attr-defined]
    warnings.formatwarning = written


# Tab behind ``lk.``, ``lk.plot.``, ``study.`` or ``study.data.``: their names without delay.


_DOTTED = re.compile(r"(?<![\w.\])}\"'])([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\.(\w*)$")
_IDENTIFIER = "labkit.names"


def completions_of(before: str, scope: Mapping[str, object]) -> tuple[list[str], str] | None:
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


def _is_ours(thing: object) -> bool:
    """Whether it is a module of labkit, or an object of one of its classes."""
    name = thing.__name__ if isinstance(thing, ModuleType) else type(thing).__module__
    return str(name).partition(".")[0] == "labkit"


def _inside(thing: object, name: str) -> Any:
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
        found = completions_of(before, shell.user_ns)
        return found if found and found[0] else None

    return matcher_of(_IDENTIFIER, "name", find)


def offer(shell: object, matcher: Any) -> None:
    """Let a shell ask a matcher, once."""
    matchers = getattr(getattr(shell, "Completer", None), "custom_matchers", None)
    known = [getattr(one, "matcher_identifier", "") for one in matchers or []]
    if matchers is not None and matcher.matcher_identifier not in known:
        matchers.append(matcher)


def offer_names() -> None:
    """Offer them in the running IPython, once."""
    from IPython import get_ipython

    shell: object = get_ipython()
    if shell is not None:
        offer(shell, names_matcher(shell))
