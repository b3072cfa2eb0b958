"""The command line: ``python -m harness`` measures, ``python -m harness <command>`` reads or writes records."""

import importlib
import os
import sys
from pkgutil import iter_modules

from datasets.paths import data_folders, default_cache
from datasets.plugins import PluginError
from harness import commands
from harness.terminal.streams import readers_may_leave


def main() -> int:
    """Run the command line and return the exit code: 1 after Ctrl-C, and where a file cannot be read or written.

    A reader of stdout or stderr that leaves (``| head``) changes neither the code nor what is measured.
    """
    with readers_may_leave():
        try:
            data_folders()
            if "HARNESS_CACHE" in os.environ:
                default_cache()
        except RuntimeError as error:  # of a user's home that is not known
            print(
                f"error: $HARNESS_DATA or $HARNESS_CACHE: {str(error).rstrip('.')}: give a path without ~",
                file=sys.stderr,
            )
            return 2
        try:
            code = dispatch(sys.argv[1:])
            sys.stdout.flush()
        except PluginError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        except OSError as error:
            what = f"{error.filename or 'a file'} cannot be read or written ({error.strerror or error})"
            print(f"error: {what}: name another folder, or make room on its disk", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("error: interrupted: the same command starts over", file=sys.stderr)
            return 1
        return code


def dispatch(arguments: list[str]) -> int:
    """Hand the arguments to a command if the first one names it, else to Hydra."""
    # The command "import" is a keyword of Python, hence the module import_.py.
    modules = {module.name.strip("_"): module.name for module in iter_modules(commands.__path__)}
    name = arguments[0] if arguments else ""
    if name in modules:
        return int(importlib.import_module(f"harness.commands.{modules[name]}").main(arguments[1:]))
    if name.isidentifier():
        from harness.usage import unknown

        print(f"error: {unknown('command', name, modules)}", file=sys.stderr)
        return 2
    from harness.run import main as run

    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
