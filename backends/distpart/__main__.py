"""``python -m backends.distpart {partition,dglpart,convert,chunk,assign,dispatch,restore,verify}``."""

import sys

from backends.distpart.commandline import main

if __name__ == "__main__":
    sys.exit(main())
