"""Entry of ``python -m backends.agl.flat``."""

import sys

from backends.agl.flat.commandline import main

if __name__ == "__main__":
    sys.exit(main())
