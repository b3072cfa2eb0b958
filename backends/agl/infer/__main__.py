"""Entry of ``python -m backends.agl.infer``."""

import sys

from backends.agl.infer.commandline import main

if __name__ == "__main__":
    sys.exit(main())
