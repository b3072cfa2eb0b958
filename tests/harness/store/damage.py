"""Seeded damage to the files of records: bits that flip, writes that are cut off, values of other types or sizes."""

import json
import random
from collections.abc import Callable
from copy import deepcopy
from typing import Any

Content = bytes
HOSTILE: tuple[Any, ...] = (
    *(None, True, "", "x", "../../etc/passwd", "__import__('os').system('true')", "\ud800", -1, 0, 1 << 64, 10**400),
    *(-1.5, 1e300, float("nan"), float("inf"), -float("inf"), [], {}, [[]], [None], {"__class__": "os"}, "9" * 5000),
)


def flip(content: Content, other: Content, dice: random.Random) -> Content:
    """Flip one to three bits."""
    damaged = bytearray(content)
    for _ in range(dice.randint(1, 3)):
        damaged[dice.randrange(len(damaged))] ^= 1 << dice.randrange(8)
    return bytes(damaged)


def flip_digit(content: Content, other: Content, dice: random.Random) -> Content:
    """Replace one digit by another one."""
    places = [place for place, byte in enumerate(content) if 48 <= byte <= 57]
    place = dice.choice(places)
    digit = dice.choice([byte for byte in b"0123456789" if byte != content[place]])
    return content[:place] + bytes([digit]) + content[place + 1 :]


def cut(content: Content, other: Content, dice: random.Random) -> Content:
    """Keep the beginning."""
    return content[: dice.randrange(len(content))]


def overwrite(content: Content, other: Content, dice: random.Random) -> Content:
    """Write zeros or random bytes over a block."""
    start, length = dice.randrange(len(content)), dice.randint(1, 4096)
    block = bytes(length) if dice.random() < 0.5 else dice.randbytes(length)
    return content[:start] + block[: len(content) - start] + content[start + length :]


def repeat_block(content: Content, other: Content, dice: random.Random) -> Content:
    """Repeat a block."""
    start = dice.randrange(len(content))
    end = dice.randint(start, min(len(content), start + 2000))
    return content[:end] + content[start:]


def splice(content: Content, other: Content, dice: random.Random) -> Content:
    """Continue with the lines of another record."""
    mine, theirs = content.splitlines(keepends=True), other.splitlines(keepends=True)
    place = dice.randrange(1, min(len(mine), len(theirs)))
    return b"".join(mine[:place] + theirs[place:])


def swap_files(content: Content, other: Content, dice: random.Random) -> Content:
    """Put another record in the place of this one."""
    return other


def delete_key(content: Content, other: Content, dice: random.Random) -> Content:
    """Delete a key or an entry somewhere."""

    def change(parent: Any, key: Any) -> None:
        del parent[key]

    return _changed(content, dice, change)


def put_hostile(content: Content, other: Content, dice: random.Random) -> Content:
    """Put a value of another type or size somewhere."""

    def change(parent: Any, key: Any) -> None:
        parent[key] = deepcopy(dice.choice(HOSTILE))

    return _changed(content, dice, change)


def change_number(content: Content, other: Content, dice: random.Random) -> Content:
    """Scale, negate or replace a number somewhere."""

    def change(parent: Any, key: Any) -> None:
        factor = dice.choice((-1, 0, 1.001, 10, 1e12, 1e300))
        parent[key] = parent[key] * factor if isinstance(parent[key], int | float) else dice.random()

    return _changed(content, dice, change)


def change_length(content: Content, other: Content, dice: random.Random) -> Content:
    """Repeat, drop or add an entry of a list, or a key of an object."""

    def change(parent: Any, key: Any) -> None:
        if isinstance(parent, list):
            parent.insert(key, deepcopy(parent[key]))
        else:
            parent[f"{key}_2"] = deepcopy(parent[key])

    return _changed(content, dice, change)


def nest(content: Content, other: Content, dice: random.Random) -> Content:
    """Put a value below many lists or objects."""
    depth = dice.choice((50, 900, 5000))
    opening, closing = dice.choice(((b"[", b"]"), (b'{"a":', b"}")))
    place = content.index(b": ", dice.randrange(len(content) // 2)) + 2
    return content[:place] + opening * depth + b"1" + closing * depth + b', "rest": ' + content[place:]


def _changed(content: Content, dice: random.Random, change: Callable[[Any, Any], None]) -> Content:
    values = json.loads(content)
    change(*dice.choice(list(_places(values))))
    return json.dumps(values).encode()


def _places(value: Any) -> Any:
    """Yield every (parent, key) of an object or list."""
    items = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    for key, part in items:
        yield value, key
        if isinstance(part, dict | list):
            yield from _places(part)


KINDS = (
    *(flip, flip_digit, cut, overwrite, repeat_block, splice, swap_files),
    *(delete_key, put_hostile, change_number, change_length, nest),
)
