"""``%load_ext labkit``: the magics, registered with the running IPython."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import labkit
from labkit.errors import MachineError

if TYPE_CHECKING:
    from labkit.jupyter.magic import Spmd

__all__ = ["load_ipython_extension", "load_when_called", "unload_ipython_extension"]

#: how IPython reads %%spmd where it is not the first line of its cell: as a line magic of this name
_BELOW = "%spmd"
#: what each shell has loaded
_loaded: dict[int, Spmd] = {}


def load_ipython_extension(shell: Any) -> None:
    """Register labkit's magics.

    Parameters
    ----------
    shell : IPython.core.interactiveshell.InteractiveShell
        The running IPython.
    """
    from labkit.jupyter.completion import matcher
    from labkit.jupyter.magic import Spmd, documentation
    from labkit.jupyter.names import offer, offer_names
    from labkit.jupyter.numbers import show_plain_numbers
    from labkit.jupyter.warned import name_cells_in_warnings

    if not hasattr(shell, "register_magic_function"):
        raise MachineError("%load_ext labkit needs a running IPython or Jupyter kernel")
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

    Tab knows the words of its line before that.
    """
    from IPython import get_ipython

    from labkit.jupyter.completion import matcher
    from labkit.jupyter.names import offer

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
    from labkit.jupyter.numbers import show_number_types

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
    """Say where ``%%spmd`` belongs: IPython's own sentence is that there is no such magic."""
    from IPython.core.error import UsageError

    raise UsageError(
        f"%%spmd {line}".rstrip()
        + ": a cell magic is the first line of its cell; put what stands above it into "
        "a cell of its own, or below it"
    )
