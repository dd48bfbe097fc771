"""JupyterLab as ``labkit lab`` starts it: with a style sheet of labkit's next to the user's own."""

from __future__ import annotations

import importlib.util
import sys
import threading
from pathlib import Path
from typing import Any

__all__ = ["main"]

_TEMPLATES = Path(__file__).with_name("jupyter_config") / "templates"


def main() -> Any:
    """Become JupyterLab; its arguments are those of this process."""
    # jsonschema would build a grammar of international addresses, half of the server's start, to check a kind
    # of string that none of Jupyter's schemas has. It does without where the package is not installed.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    from jupyter_core.paths import jupyter_config_dir  # type: ignore[import-not-found, import-untyped, unused-ignore]
    from jupyter_server import DEFAULT_TEMPLATE_PATH_LIST  # type: ignore[import-not-found, import-untyped, unused-ignore]
    from jupyter_server.serverapp import ServerApp  # type: ignore[import-not-found, import-untyped, unused-ignore]
    from jupyterlab.labapp import main as lab  # type: ignore[import-not-found, import-untyped, unused-ignore]

    # A page asks for nbconvert's formats while it opens, and everything else waits for their import then.
    from tornado.ioloop import IOLoop  # type: ignore[import-not-found, import-untyped, unused-ignore]

    IOLoop.current().call_later(0, threading.Thread(target=_import_converters, daemon=True).start)
    # Only jupyterlab-lsp asks for the language servers of this machine; the search takes node half a second.
    if importlib.util.find_spec("jupyterlab_lsp") is None:
        sys.argv.insert(1, "--LanguageServerManager.autodetect=False")
    # The page that leads a browser here waits for a second before it does; labkit's does not. A user's own
    # templates (ServerApp.extra_template_paths) come before both.
    DEFAULT_TEMPLATE_PATH_LIST.insert(0, str(_TEMPLATES))
    # JupyterLab looks for custom.css in this list, which the command line could not set otherwise.
    ServerApp.static_custom_path.tag(config=True)
    sys.argv.insert(1, f"--ServerApp.static_custom_path={Path(jupyter_config_dir(), 'custom')}")
    return lab()


def _import_converters() -> None:
    """Import what lists the formats of exports, while the browser reads its first page."""
    from nbconvert.exporters import base  # type: ignore[import-not-found, import-untyped, unused-ignore]

    base.get_export_names()  # type: ignore[no-untyped-call, unused-ignore]


if __name__ == "__main__":
    main()
