"""Planned groups of dummy cells, their records, and a check that none of their processes is left."""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from backends.registry import config_class
from harness.launcher.group import run_groups
from harness.planning.schema import (
    DatasetConfig,
    LauncherConfig,
    MeasureConfig,
    ModelConfig,
    RunConfig,
    ScenarioConfig,
    TrainingConfig,
)
from harness.verify.graphs import small_graph

QUICK = {
    "processes": 1,
    "warmup": 1,
    "min_samples": 3,
    "max_samples": 3,
    "cache": "none",
    "memory": False,
    "parity": False,
}


def saved_graph(folder: Path, task: str = "multiclass", classes: int = 4, nodes: int = 120) -> str:
    """Write a small prepared graph and return its folder."""
    graph = replace(small_graph(task, classes, weighted=False, nodes=nodes), name="tiny", sha256="00" * 32)
    folder.mkdir(parents=True, exist_ok=True)
    graph.save(folder)
    return str(folder)


def cell(graph: str | None, label: str = "a", launcher: str = "process", **sections: dict[str, Any]) -> dict[str, Any]:
    """Return one planned dummy cell; ``sections`` are those of the configuration."""
    config = RunConfig(
        dataset=DatasetConfig("tiny"),
        model=ModelConfig("gcn", **{"hidden": 8} | sections.get("model", {})),
        training=TrainingConfig(**{"epochs": 3} | sections.get("training", {})),
        backend=config_class("dummy")(**sections.get("backend", {})),
        scenario=ScenarioConfig(**{"train_to_end": False} | sections.get("scenario", {})),
        measure=MeasureConfig(**QUICK | sections.get("measure", {})),
        launcher=LauncherConfig(launcher, **sections.get("launcher", {})),
        threads=1,
    )
    path = f"machine/tiny/gcn/dummy/train/{label}/seed=0.{{environment}}.group.json"
    planned = {"status": None, "message": "", "hash": label, "config_diff": {}, "labels": [[]]}
    return planned | {"config": asdict(config), "path": path, "graph": graph, "prepare": {"parse": 0.5, "order": 0.25}}


def group(*cells: dict[str, Any], name: str = "group") -> dict[str, Any]:
    """Return a planned group of cells."""
    return {"id": name, "key": {"dataset": "tiny"}, "cells": list(cells)}


def run(folder: Path, *cells: dict[str, Any], **options: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Run one group and return its records and its events; no process may be left."""
    events: list[dict[str, Any]] = []
    with mark_processes("run"):
        written = run_groups([group(*cells)], folder / "results", on_event=events.append, **options)
    return written, events


def marked(mark: str) -> list[int]:
    """Process ids of all other processes whose environment contains ``mark``."""
    processes = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                environment, state = (entry / "environ").read_bytes(), (entry / "stat").read_text().rpartition(")")[2]
            except OSError:
                continue
            if mark.encode() in environment and state.split()[0] not in ("Z", "X"):
                processes.append(int(entry.name))
    return processes


def eventually(condition: Callable[[], object], what: str, patience: float = 60.0) -> None:
    """Wait until ``condition`` holds; fails after ``patience`` seconds."""
    until = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < until, f"still waiting for {what} after {patience:g} s"
        time.sleep(0.02)


@contextmanager
def mark_processes(name: str) -> Iterator[str]:
    """Mark all processes that are started inside the context; fails when one is left at its end."""
    mark = f"HARNESS_TEST_MARK={name}-{os.getpid()}"
    key, _, value = mark.partition("=")
    os.environ[key] = value
    try:
        yield mark
        eventually(lambda: not marked(mark), f"the end of processes {marked(mark)}")
    finally:
        del os.environ[key]


def records(results: Path) -> list[dict[str, Any]]:
    """Read all records below a folder."""
    return [json.loads(path.read_text()) for path in sorted(results.rglob("seed=*.json"))]
