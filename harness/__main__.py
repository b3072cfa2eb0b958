"""The command line: ``python -m harness`` measures, ``python -m harness <command>`` does something with records."""

import importlib
import os
import sys
from pkgutil import iter_modules

from harness import commands


def main() -> int:
    """Run the command line and return the exit code; a reader that leaves, as ``head`` does, is no failure."""
    try:
        code = dispatch(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def dispatch(arguments: list[str]) -> int:
    """Hand the arguments to a command if the first one names it, else to Hydra."""
    # A module may not be called import.py by everybody's taste: import_.py is the command import, too.
    modules = {module.name.strip("_"): module.name for module in iter_modules(commands.__path__)}
    given = arguments[0] if arguments else ""
    if given in modules:
        return int(importlib.import_module(f"harness.commands.{modules[given]}").main(arguments[1:]))
    if given.isidentifier():
        from harness.usage import unknown

        print(f"error: {unknown('command', given, modules)}", file=sys.stderr)
        return 2
    from harness.run import main as run

    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
