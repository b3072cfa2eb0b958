"""A running Ray cluster that GraphFlat and GraphInfer join, and the place where its machines find files."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.agl.flat.source import Source
from backends.kernels.extension import extension
from backends.parallel import ray_cluster
from backends.places import holds, remove, remove_mirror

REMOVAL_SECONDS, START_SECONDS = 10.0, 120.0


@dataclass(frozen=True)
class Cluster:
    """The ``address`` of a running cluster, and a ``store``, a URL that all its machines read and write.

    Without an address Ray is started on this machine, whose folders are then enough.
    """

    address: str | None = None
    store: str | None = None

    def check(self, run_on: str) -> None:
        """Raise ValueError for a combination that is not allowed."""
        if (self.address or self.store) and run_on != "ray":
            raise ValueError(f"an address or store of a cluster is not used with run_on={run_on}: give run_on=ray")
        if self.address and not self.store:
            raise ValueError(
                f"the machines of the cluster at {self.address} must find the graph: give a store that all of them "
                "reach, such as s3://bucket/folder or file:///shared/folder"
            )
        if self.store and "://" not in self.store:
            raise ValueError(
                f"store={self.store} is no URL: give one as in s3://bucket/folder or file:///shared/folder"
            )

    def place_of(self, source: Path, identity: str) -> str | None:
        """The place of a run in the store, ``None`` without one; the same job has another place for another output."""
        if self.store is None:
            return None
        run = hashlib.sha256(f"{identity} {source.resolve()}".encode()).hexdigest()
        return f"{self.store.rstrip('/')}/agl-{run[:16]}"

    @contextmanager
    def publishing(self, ray: Any, source: Path, identity: str) -> Iterator[str | None]:
        """Copy the folder of a ``Source`` to the store, and yield the run's place there, ``None`` without a store.

        The place is removed at the end, with the copies of all machines, also where the run is refused by a ValueError.
        After another failure it stays: a repeated run goes on.
        """
        place = self.place_of(source, identity)
        if place is None:
            yield None
            return
        _check_machines(ray)
        if not holds(f"{place}/source/source.json"):
            Source.publish(source, f"{place}/source")
        try:
            yield place
        except ValueError:
            _remove(ray, place)
            raise
        _remove(ray, place)


def _remove(ray: Any, place: str) -> None:
    """Remove the place of a run, and the copies that machines made of its source."""
    running = ray_cluster.everywhere(ray, remove_mirror, f"{place}/source")
    ray.wait(running, num_returns=len(running), timeout=REMOVAL_SECONDS)  # a machine that is gone removes nothing
    remove(place)


def code_version() -> str:
    """Digest of the kernels that a process loaded."""
    return str(getattr(extension, "sources", "none"))


def _check_machines(ray: Any) -> None:
    """Raise ValueError where a machine cannot import this code, or has other kernels."""
    try:
        versions = ray.get(ray_cluster.everywhere(ray, code_version), timeout=START_SECONDS)
    except Exception as error:
        reason = [type(error).__name__, *str(error).strip().splitlines()][-1]
        raise ValueError(
            f"a machine of the cluster cannot run this code ({reason}): install this package there"
        ) from error
    if set(versions) != {code_version()}:
        raise ValueError("a machine of the cluster has other kernels than this one: install the same version on each")
