"""labkit inside a notebook: ``%load_ext labkit``, ``%%spmd``, and what shows itself there.

IPython is imported late, by what needs it: ``import labkit.jupyter`` works without it.
"""

from labkit.jupyter.extension import load_ipython_extension, unload_ipython_extension

__all__ = ["load_ipython_extension", "unload_ipython_extension"]
