"""A running Ray cluster that GraphFlat and GraphInfer join, and the place where its machines find files."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.agl.flat.source import Source
from backends.agl.places import holds, remove, remove_mirror
from backends.parallel import ray_cluster


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

    @contextmanager
    def publishing(self, ray: Any, source: Path, identity: str) -> Iterator[str | None]:
        """Copy the folder of a ``Source`` to the store, and yield the run's place there, ``None`` without a store.

        The place is removed at the end, with the copies of all machines, unless the run failed: a repeated one goes on.
        """
        if self.store is None:
            yield None
            return
        place = f"{self.store.rstrip('/')}/agl-{identity[:16]}"
        if not holds(f"{place}/source/source.json"):
            Source.publish(source, f"{place}/source")
        yield place
        ray_cluster.everywhere(ray, remove_mirror, f"{place}/source")
        remove(place)
