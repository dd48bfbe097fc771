"""An IPython shell without files, and what it shows."""

from __future__ import annotations

import atexit
import sys

import pytest

pytest.importorskip("IPython")


class Notebook:
    """Runs cells as a notebook does."""

    def __init__(self, shell, capsys):
        self.shell, self._capsys = shell, capsys

    @property
    def names(self):
        return self.shell.user_ns

    def run(self, *cells):
        """Run cells; return the last one's text, standard error and traceback included."""
        text = ""
        for cell in cells:
            self.result = self.shell.run_cell(cell, store_history=True)
            captured = self._capsys.readouterr()
            text = captured.out + captured.err
        return text

    @property
    def error(self):
        return self.result.error_in_exec


@pytest.fixture
def notebook(tmp_path, monkeypatch, capsys):
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    before = sys.modules["__main__"], sys.displayhook, sys.excepthook
    shell = InteractiveShell.instance(config=config)
    made = Notebook(shell, capsys)
    assert made.run("%load_ext labkit") == ""
    try:
        yield made
    finally:
        shell.run_cell("%unload_ext labkit")
        atexit.unregister(shell.atexit_operations)
        shell.atexit_operations()
        shell.restore_sys_module_state()
        InteractiveShell.clear_instance()
        sys.modules["__main__"], sys.displayhook, sys.excepthook = before
