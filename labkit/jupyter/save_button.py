"""The button that downloads your work: the archive travels through the kernel and needs no address."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from anywidget import AnyWidget
from traitlets import Unicode

from labkit.errors import LabkitError

__all__ = ["PART_BYTES", "SaveButton"]

#: Jupyter's server drops what a kernel sends beyond 1 MB/s
PART_BYTES = 250_000


@cache
def _script() -> str:
    return Path(__file__).with_name("js").joinpath("save_button.js").read_text("utf-8")


class SaveButton(AnyWidget):  # type: ignore[misc]  # it is untyped
    """A button; see `labkit.save_button`.

    Parameters
    ----------
    pack : callable
        Packs the work again, and returns a `labkit.jupyter.save_work.SavedWork`.
    hint : str
        What stands below it before it is clicked.
    """

    _esm = _script()
    hint = Unicode("").tag(sync=True)

    def __init__(self, pack: Callable[[], Any], hint: str = "", **traits: object) -> None:
        super().__init__(hint=hint, **traits)
        self._work, self._name, self._archive = pack, "", b""
        self.on_msg(self._answer)

    def _answer(self, _: object, content: dict[str, Any], __: object) -> None:
        if content.get("kind") == "pack":
            self.send(self._pack())
        elif content.get("kind") == "part":
            begin = int(content["offset"])
            part = self._archive[begin : begin + PART_BYTES]
            self.send({"kind": "part", "name": self._name}, [part])

    def _pack(self) -> dict[str, object]:
        """Pack again, and report the outcome."""
        try:
            saved = self._work()
            self._archive = saved.path.read_bytes()
        except (LabkitError, OSError) as error:
            return {"kind": "failed", "text": str(error)}
        self._name = saved.path.name
        text = f"{self._name}: {saved.summary()}; a copy is next to this notebook"
        lines = [text, *(f"left out: {name} ({why})" for name, why in saved.left_out), *saved.hints()]
        return {"kind": "packed", "name": self._name, "size": len(self._archive), "text": "\n".join(lines)}
