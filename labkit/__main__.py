"""``python -m labkit`` is the command ``labkit``."""

import os
import sys

if __name__ == "__main__":
    # the command has no working folder among its modules' places; Python's -m puts it first: a folder of
    # submissions, perhaps, one of them called numpy.py
    if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:
        del sys.path[0]
    from labkit.cli import main

    sys.exit(main())
