"""Entry of ``python -m backends.agl.train``."""

import sys

from backends.agl.train.commandline import main

if __name__ == "__main__":
    sys.exit(main())
