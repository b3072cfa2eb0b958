"""Tables of a small graph, and the commands that flatten, train and score them."""

from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from backends.agl.flat import __main__ as flat
from backends.agl.train import __main__ as train

COUNT, ROWS = 60, 400
DRAWN = np.random.default_rng(5)
IDS = DRAWN.permutation(1000)[:COUNT]
SOURCES, TARGETS = np.minimum(*DRAWN.integers(0, COUNT, (2, 2, ROWS)))
NODES = {
    "id": IDS,
    "a": DRAWN.normal(size=COUNT).astype(np.float32),
    "b": DRAWN.normal(size=COUNT).astype(np.float32),
    "type": DRAWN.integers(0, 3, COUNT),
    "label": [None if one < 0 else int(one) for one in DRAWN.integers(-1, 3, COUNT)],
}
EDGES = {
    "source": IDS[SOURCES],
    "target": IDS[TARGETS],
    "weight": DRAWN.uniform(0.1, 2.0, ROWS).astype(np.float32),
    "g": DRAWN.normal(size=ROWS).astype(np.float32),
}
SAMPLINGS = [
    "full()",
    "uniform(4);uniform(2)",
    "uniform(2);uniform(5)",
    "uniform(3, replacement=true)",
    "weighted(by=weight, limit=3);weighted(by=weight, limit=2)",
    "weighted(by=weight, limit=3, replacement=true)",
    "topk(by=weight, limit=2)",
    "topk(by=feature[0], limit=3, reverse=true)",
]


def tables(folder: Path, nodes=NODES, edges=EDGES, ending="parquet") -> list[str]:
    """Write both tables; return the options that name them."""
    write = parquet.write_table if ending == "parquet" else csv.write_csv
    for name, columns in (("nodes", nodes), ("edges", edges)):
        write(pa.table(columns), folder / f"{name}.{ending}")
    return ["-n", str(folder / f"nodes.{ending}"), "-e", str(folder / f"edges.{ending}")]


def scores_of(folder: Path) -> dict:
    """Scores by id."""
    table = folder / "nodes.parquet"  # of ids that are text
    ids = parquet.read_table(table).columns[0].to_pylist() if table.exists() else np.load(folder / "nodes.npy").tolist()
    return dict(zip(ids, np.load(folder / "scores.npy"), strict=True))


def chain(folder: Path, model: str, *options: str, own_tables=None) -> list[str]:
    """Flatten and train; return the tables."""
    files = own_tables or tables(folder)
    edges = ["--edge-features", "g"] if model == "gat" or "feature[" in " ".join(options) else []
    read = [*files, "--split", "0.8,0.1,0.1", *edges]
    assert flat.main([*read, "-h", "2", "-o", str(folder / "flat"), *options]) == 0
    trained = ["-m", model, "-i", str(folder / "flat"), "-o", str(folder / "model.safetensors")]
    heads = ["heads=2"] if model == "gat" else []
    assert train.main([*trained, "-c", "epochs=2", "hidden=4", "threads=1", *heads]) == 0
    return files
