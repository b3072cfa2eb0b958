"""PT-Scotch as a peer: its program ``dgpart`` under ``mpirun``, a process per thread, on text files."""

import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from backends.contract import Clock
from backends.kernels.partition import Parts, UndirectedGraph
from backends.partitioners.cut import CutPartitioner

# Scotch binds thread i of every process to core i: without this, all processes share the first core.
ONE_THREAD = {"SCOTCH_PTHREAD_NUMBER": "1"}
RUN = ("mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none")


class PtscotchPartitioner(CutPartitioner):
    """Assigns nodes by PT-Scotch; the call starts its processes, which read the graph: ``own_seconds`` does not."""

    peer = "PT-Scotch"
    most_weight = np.iinfo(np.int32).max
    own_seconds = 0.0

    def load(self, graph: UndirectedGraph) -> None:
        """Write the graph to a file, which every call reads."""
        self.folder = tempfile.TemporaryDirectory()
        write_scotch(Path(self.folder.name) / "graph.grf", graph)

    def assign(self, graph: UndirectedGraph | None, clock: Clock) -> Parts:
        """Run the program on the graph's file, phase ``ptscotch``; raises RuntimeError with what it printed."""
        task, folder = self.task, Path(self.folder.name)
        program = ["dgpart", str(task.parts), "graph.grf", "parts.map", f"-b{task.imbalance - 1:g}", "-Cdf", "-vt"]
        with clock.phase("ptscotch"):
            ended = subprocess.run(
                [*RUN, "-np", str(task.threads), *program],
                cwd=folder,
                env=os.environ | ONE_THREAD,
                capture_output=True,
                text=True,
                check=False,
            )
            if ended.returncode:
                raise RuntimeError(f"dgpart ended with {ended.returncode}: {(ended.stderr + ended.stdout)[-500:]}")
            rows = np.loadtxt(folder / "parts.map", dtype=np.int64, skiprows=1, ndmin=2)
        self.own_seconds = _mapping_seconds(ended.stdout)
        parts = np.empty(len(rows), dtype=np.int32)
        parts[rows[:, 0]] = rows[:, 1]
        return parts

    def facts(self) -> dict[str, Any]:
        """Seconds of the last call that the program itself gives for the mapping."""
        return {"own_seconds": self.own_seconds}

    def close(self) -> None:
        """Remove the graph's file."""
        if hasattr(self, "folder"):  # preparing may have failed before there was one
            self.folder.cleanup()


def write_scotch(path: Path, graph: UndirectedGraph) -> None:
    """Write a graph in Scotch's text format: for each node its load, its degree and its neighbours."""
    starts, loads = graph.starts.tolist(), graph.node_weights[:, 0].tolist()
    with path.open("w") as file:
        file.write(f"0\n{graph.nodes} {len(graph.neighbours)}\n0 001\n")
        for node, load in enumerate(loads):
            neighbours = graph.neighbours[starts[node] : starts[node + 1]].tolist()
            file.write(" ".join(map(str, (load, len(neighbours), *neighbours))) + "\n")


def _mapping_seconds(printed: str) -> float:
    """Seconds of the slowest process, of the line that ``-vt`` prints for the mapping."""
    line = re.search(r"Mapping\b.*?max=(\S+)", printed)
    return float(line[1]) if line else 0.0
