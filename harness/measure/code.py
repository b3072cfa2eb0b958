"""Digests of source code that comments, docstrings and layout do not move: Python by syntax tree, C++ by token.

The syntax tree is written out here, field by field without the empty ones, and not by ``ast.dump``, whose output varies
between Python versions: the digests are the same in 3.11, 3.12 and 3.13.
"""

import ast
import hashlib
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

CPP = frozenset((".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp"))
DIGITS = 12
Stamp = tuple[Path, int, int]  # a file with its size [bytes] and the time of its last change [ns]
_STARTED = time.time()
_CPP_TOKEN = re.compile(
    r"""(?P<skip>//[^\n]*|/\*.*?\*/|\\\n|[^\S\n]+)"""
    r"""|(?P<token>R"(?P<delimiter>[^()\s\\]{0,16})\(.*?\)(?P=delimiter)"|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)+'"""
    r"""|[A-Za-z_]\w*|\.?\d(?:[eEpP][+-]|'?[\w.])*"""
    r"""|<=>|<<=|>>=|->\*|\.\.\.|::|\+\+|--|->|<<|>>|&&|\|\||\#\#|[-+*/%&|^=!<>]=|[^\s])"""
    r"""|(?P<newline>\n)""",
    re.S,
)


def digest_of(path: Path) -> str:
    """Digest a Python file, a folder of C++ sources, or the bytes of any other file, as it is at this moment.

    A file written since this process started may differ from what the measured process had loaded: it gets a digest
    that no other process computes, as does one that is gone. A time in the future was set by another clock and says
    nothing.
    """
    with suppress(FileNotFoundError, NotADirectoryError):
        files = cpp_files(path) if path.is_dir() else [path]
        return _stamped_digest(path, tuple(_stamp(file) for file in files))
    return _edited()


@cache
def _stamped_digest(path: Path, stamps: tuple[Stamp, ...]) -> str:
    """The digest of a file or folder whose files have these stamps; read once per process."""
    if any(_STARTED < modified / 1e9 <= time.time() for _, _, modified in stamps):
        return _edited()
    if path.is_dir():
        texts = {file.relative_to(path): file.read_text(encoding="utf-8") for file, _, _ in stamps}
        return _hex("\n".join(f"{name} {cpp_digest(text)}" for name, text in texts.items()).encode())
    return python_digest(path.read_text(encoding="utf-8")) if path.suffix == ".py" else _hex(path.read_bytes())


def _stamp(file: Path) -> Stamp:
    status = file.stat()
    return file, status.st_size, status.st_mtime_ns


def _edited() -> str:
    return f"edited while process {os.getpid()} ran, started at {_STARTED:.0f}"


def cpp_files(folder: Path) -> list[Path]:
    """All C and C++ sources below a folder, sorted."""
    return sorted(file for file in folder.rglob("*") if file.suffix in CPP)


def python_digest(text: str) -> str:
    """Digest the syntax tree of Python source, without positions and without strings that stand as statements.

    Source that cannot be parsed, as while somebody edits it, is digested as it is.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return _hex(text.encode())
    return _hex(_written_out(tree).encode())


def _written_out(node: Any) -> str:
    if isinstance(node, ast.JoinedStr):  # Python 3.12 puts empty strings between its parts
        node.values = [part for part in node.values if not (isinstance(part, ast.Constant) and part.value == "")]
    if isinstance(node, ast.AST):
        fields = ((name, value) for name, value in ast.iter_fields(node) if value is not None and value != [])
        return f"{type(node).__name__}({','.join(f'{name}={_written_out(value)}' for name, value in fields)})"
    if isinstance(node, list):
        return f"[{','.join(_written_out(item) for item in node if not _is_docstring(item))}]"
    return ascii(node)  # repr() would depend on the interpreter's Unicode tables


def _is_docstring(node: Any) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def cpp_digest(text: str) -> str:
    """Digest the tokens of C++ source."""
    return _hex("\0".join(_cpp_tokens(text)).encode())


def _cpp_tokens(text: str) -> Iterator[str]:
    """Yield the tokens, without white space but for the ends of preprocessor lines, which have a meaning."""
    directive = line_start = False
    for match in _CPP_TOKEN.finditer("\n" + text):
        if token := match["token"]:
            directive = directive or (line_start and token == "#")
            line_start = False
            yield token
        elif match["newline"]:
            if directive:
                yield "\n"
            directive, line_start = False, True


def _hex(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:DIGITS]
