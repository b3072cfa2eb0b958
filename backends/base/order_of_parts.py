"""Order ``parts``: the nodes of a partition's parts one after the other, assigned by any engine that partitions."""

import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import fields
from typing import Any

import numpy as np

from backends.contract import Nodes, Partitioner, PartitionTask, Unsupported
from backends.registry import BackendConfig, backend_names, config_class, runtime
from datasets.csr import Csr
from datasets.graph import Graph
from datasets.options import check_options, unknown_name
from datasets.order import Renumbering
from datasets.refusal import OrderRefused

LOADS = ("nodes", "edges")


def parts(
    csr: Csr,
    engine: str = "distpart",
    parts: int = 2,
    options: Mapping[str, Any] | None = None,
    balance: str = "nodes",
    imbalance: float = 1.03,
    threads: int = 2,
    seed: int = 0,
    inductive: bool = False,
) -> Renumbering:
    """Number the nodes part by part, as a backend of scenario ``partition`` assigns them; in a part by their old ids.

    ``engine`` is that backend, ``options`` are its own, such as ``{method: random}``; a part has at most ``imbalance``
    times the mean of ``balance``: ``nodes``, or in-degrees (``edges``). Raises ValueError for unknown names and
    options, a package that is not installed, more parts than nodes, and an inductive data set, whose training view has
    other parts than the whole.
    """
    if inductive:
        raise OrderRefused(
            "order parts: the data set is inductive, and the view that is trained has other parts than the whole; "
            "choose another order, such as order=metis"
        )
    if balance not in LOADS:
        raise ValueError(unknown_name("balance of order parts", balance, LOADS))
    nodes = csr.shape[0]
    if not 1 <= parts <= nodes:
        refusal = OrderRefused if parts > nodes else ValueError
        raise refusal(f"order parts with parts={parts}: allowed are 1 to {nodes}, the nodes of the graph")
    if imbalance < 1:
        raise ValueError(f"order parts with imbalance={imbalance}: allowed are 1 and more, such as 1.03")
    loads = np.ones(nodes, dtype=np.int64) if balance == "nodes" else csr.in_degrees.astype(np.int64)
    task = PartitionTask(parts, loads[:, None], imbalance, "cut", seed, threads)
    config, start = _config(engine, options or {}), time.perf_counter()
    partitioner: Partitioner = runtime(config, "partition")
    import_seconds = time.perf_counter() - start
    assignment = _assignment(partitioner, config.name, Graph("order of parts", csr), task)
    bounds = np.concatenate(([0], np.cumsum(np.bincount(assignment, minlength=parts))))
    return Renumbering(np.argsort(assignment, kind="stable"), bounds, import_seconds)


class _Untimed:
    """A clock for calls whose phases nobody reads: the harness times the order as a whole."""

    def phase(self, name: str) -> nullcontext[None]:
        return nullcontext()


def _assignment(partitioner: Partitioner, engine: str, graph: Graph, task: PartitionTask) -> Nodes:
    """The part of each node; raises OrderRefused where the engine cannot divide this graph."""
    try:
        partitioner.prepare(graph, task, _Untimed())
        partitioner.partition(_Untimed())
        return partitioner.assignment()
    except Unsupported as error:
        raise OrderRefused(f"order parts by {engine}: {error}") from error
    finally:
        partitioner.close()


def _config(engine: str, options: Mapping[str, Any]) -> BackendConfig:
    """The options of a backend that partitions and is installed, or ValueError."""
    known = [name for name in backend_names() if "partition" in config_class(name).runtimes]
    if engine not in known:
        raise ValueError(unknown_name("engine of order parts", engine, known))
    kind = config_class(engine)
    check_options(f"option of backend {engine}", options, [field.name for field in fields(kind)])
    config = kind(**options)
    if missing := config.missing():
        raise ValueError(f"order parts: {missing}")
    return config
