"""Standard streams that end no command: their readers may leave, as ``| head`` does, their encoding lack characters."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any, TextIO, cast


class LeftStream:
    """A text stream that writes to nowhere once its reader has left."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write a text and return its length."""
        try:
            return self.stream.write(text)
        except BrokenPipeError:
            self._write_nowhere()
            return len(text)

    def flush(self) -> None:
        """Write what is buffered."""
        try:
            self.stream.flush()
        except BrokenPipeError:
            self._write_nowhere()

    def _write_nowhere(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.stream.fileno())
        os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of the stream."""
        return getattr(self.stream, name)


@contextmanager
def readers_may_leave() -> Iterator[None]:
    """Let stdout and stderr write to nowhere once their reader has left, instead of raising BrokenPipeError.

    A character that the encoding of stdout lacks is written as ``?``; stderr escapes it anyway. A stream that the shell
    has closed (``>&-``) writes to nowhere, too.
    """
    with _opened(sys.stdout) as stdout, _opened(sys.stderr) as stderr:
        if isinstance(stdout, io.TextIOWrapper):
            stdout.reconfigure(errors="replace")
        output, errors = LeftStream(stdout), LeftStream(stderr)
        with redirect_stdout(cast(TextIO, output)), redirect_stderr(cast(TextIO, errors)):
            try:
                yield
            finally:
                for stream in (output, errors):
                    with suppress(OSError):  # of a full disk, which is told where a command ends
                        stream.flush()


@contextmanager
def _opened(stream: TextIO | None) -> Iterator[TextIO]:
    """A standard stream, of which Python has none where it was closed before the start."""
    if stream is not None:
        yield stream
        return
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        yield nowhere
