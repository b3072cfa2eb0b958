"""Subcommands of ``python -m harness``, one module each with ``main(arguments) -> exit code``."""
