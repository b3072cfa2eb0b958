"""A sampler by its name; one of a user's own, named by its import path, is tried on a few edges before it is used."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module

import numpy as np

from backends.kernels.samplers import SAMPLERS, EdgeSampler
from datasets.randomness import hash_ids

TRIED = (5, 0)  # edges: some, and none, as nodes have that no edge enters


def usable_sampler(name: str) -> EdgeSampler:
    """The sampler of a name.

    Raises ValueError for one that is not there, whose module fails, or whose keys fail or are not one number per edge.
    """
    path = name.rpartition(".")[0]
    if path:
        with _running(f"sampler={name!r} cannot be imported"), suppress(ImportError):  # the registry names that one
            import_module(path)
    sampler = SAMPLERS[name]
    for count in TRIED if path and sampler.keys is not None else ():
        with _running(f"sampler={name!r} fails for {count} edges"):
            keys = np.asarray(sampler.keys(hash_ids(0, "trial", np.arange(count)), np.linspace(1, 2, count)))
        if keys.shape != (count,) or keys.dtype.kind not in "biuf":
            raise ValueError(
                f"sampler={name!r} returns {keys.dtype} of shape {keys.shape} for {count} edges: give a number for each"
            )
    return sampler


@contextmanager
def _running(what: str) -> Iterator[None]:
    """Name type and place of what fails in a user's code, as ValueError."""
    try:
        yield
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        users = [frame for frame in frames if frame.filename != __file__ and "importlib" not in frame.filename]
        place = f"{users[0].filename}, line {users[0].lineno}: " if users else ""
        raise ValueError(f"{what}: {place}{type(error).__name__}: {error}") from error
