"""Records as a run would write them, with seeded numbers; tests replace single keys."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

from harness.store.files import write_environment, write_record

MACHINE = "test-cpu-2-cores"
ENVIRONMENT = {"checked": {"cpu": "Test CPU", "torch": "2.13.0", "threads": 2}, "load": 0.1}
CONFIG: dict[str, Any] = {
    "dataset": {"name": "cora", "options": {}},
    "order": {"name": "none", "options": {}},
    "model": {"name": "gat", "layers": 2, "hidden": 8, "heads": 8, "output_heads": 1, "slope": 0.2, "head": "none"},
    "training": {"optimizer": "adam", "rate": 0.005, "epochs": 200, "batch_size": None, "dtype": "float32"},
    "scenario": {"name": "train", "train_to_end": True, "target": None},
    "measure": {"warmup": 2, "min_samples": 5},
    "launcher": {"name": "process", "allocator": "tuned", "python": None},
    "tracker": {"name": "none"},
    "ablations": {},
    "seed": 0,
    "device": "cpu",
    "threads": 2,
    "results": "results",
}
DATASET: dict[str, Any] = {
    "name": "cora",
    "sha256": "ab" * 32,
    "trust": "manifest",
    "synthetic": False,
    "task": "multiclass",
    "counts": {"nodes": 2708, "edges": 10556, "features": 1433, "classes": 7},
    "published": {"nodes": 2708, "edges": 5429},
    "notes": [],
}


def config(backend: str = "agl", seed: int = 0, /, **sections: Any) -> dict[str, Any]:
    """A resolved config; keyword sections are merged into those of ``CONFIG``."""
    values = deepcopy(CONFIG) | {"backend": {"name": backend}, "seed": seed}
    for name, section in sections.items():
        values[name] = values[name] | section if isinstance(values.get(name), dict) else section
    return values


def record(
    backend: str = "agl", seed: int = 0, seconds: float = 0.1, status: str = "ok", **keys: Any
) -> dict[str, Any]:
    """Return the record of one cell whose epochs take about ``seconds``; noise depends on backend and seed."""
    values: dict[str, Any] = {"status": status, "config": config(backend, seed), "ablations": [], "group": f"g{seed}"}
    values |= {"dataset": deepcopy(DATASET), "environment": "unset", "written": "2026-01-31T12:00:00Z"}
    if status == "ok":
        values |= measured(np.random.default_rng([seed, *backend.encode()]), seconds)
    else:
        values |= {"message": f"it ended as {status} | on purpose", "log_tail": "Traceback"}
    return values | keys


def measured(random: np.random.Generator, seconds: float) -> dict[str, Any]:
    """Return the keys that only a record of status ok has."""
    epochs = (seconds * random.uniform(0.98, 1.02, 6)).tolist()
    phases = {"forward": [0.4 * value for value in epochs], "backward": [0.5 * value for value in epochs]}
    return {
        "prepare": {"parse": 0.2, "convert": 0.1},
        "warmup": [2 * seconds, seconds],
        "epochs": {
            "seconds": epochs,
            "cpu_seconds": [1.8 * value for value in epochs],
            "phases": phases,
            "loss": [1.0] * 6,
            "disturbed": [],
            "calls": [1] * 6,
            "process": [0] * 6,
            "first": [1.1 * value for value in epochs],
        },
        "rounds": list(range(1, 7)),
        "processes": [{"prepare": {"parse": 0.2}, "warmup": [seconds], "first_call": seconds, "load": 0.1}],
        "facts": {},
        "validation": [[epoch, 1.0 / (epoch + 1), 0.5 + 0.01 * epoch] for epoch in range(10)],
        "metrics": {
            "name": "accuracy",
            "train": 1.0,
            "validation": 0.8,
            "test": round(0.82 + random.uniform(-0.01, 0.01), 4),
            "best_epoch": 90,
            "epochs_run": 200,
            "epochs_to_target": 50,
        },
        "memory": {
            "resident_after_prepare": 310e6,
            "resident": 300e6,
            "retained": 10e6,
            "peak": 410e6,
            "peak_minus_resident": 110e6,
            "working_set": 120e6,
        },
        "cache": {"hit_rate": 0.87, "sampled": 1.0, "caches": "sysfs"},
    }


def write(
    results: Path,
    values: dict[str, Any],
    folder: str = "",
    environment: dict[str, Any] | None = None,
    machine: str = MACHINE,
) -> Path:
    """Write a record where a run on ``machine`` would, with its environment."""
    name = write_environment(results, environment or ENVIRONMENT)
    values = values | {"environment": name}
    cell = values["config"]
    variant = folder or f"hash-{cell['backend'].get('variant', 'x')}-{'-'.join(values['ablations']) or 'x'}"
    levels = (cell["dataset"]["name"], cell["model"]["name"], cell["backend"]["name"], cell["scenario"]["name"])
    file = f"seed={cell['seed']}.{name}.{values['group']}.json"
    return write_record(results, Path(machine, *levels, variant, file), values)


def in_fresh_processes(values: dict[str, Any]) -> dict[str, Any]:
    """The record with a fresh process behind each of its samples, as many as a headline takes."""
    count = len(values["epochs"]["seconds"])
    values["epochs"]["process"] = list(range(count))
    return values | {"processes": values["processes"][:1] * count}
