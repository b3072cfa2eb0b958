"""``python -m tests.backends.distpart.kills --count 100``: kill -9 at random moments, then resume to the same bytes."""

import argparse
import filecmp
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from backends.distpart.files.assignment import write_assignment
from backends.distpart.files.chunked import write_chunked
from tests.backends.distpart.graphs import stored_graph

PARTS = 6


def kill_and_resume(count, folder, seed=0, nodes=20_000, edges=150_000):
    """Kill ``count`` dispatches, resume each; returns how many were killed in which step, and how many differ."""
    graph = stored_graph(seed, nodes=nodes, edges=edges)
    write_chunked(graph, folder / "chunks", 3)
    parts = np.random.default_rng(seed).integers(0, PARTS, graph.total_nodes).astype(np.int32)
    write_assignment(graph, parts, PARTS, "random", folder / "assigned")
    for name in ("whole", "again"):  # the first call reads its modules from the disk
        process = _begun(folder, name)
        start = time.perf_counter()
        _wait_for(folder / name / "toy.json", process)
        seconds = time.perf_counter() - start
        assert process.wait() == 0
    names = sorted([*(path.name for path in folder.iterdir()), "out"])
    draw = random.Random(seed)
    outcome = dict.fromkeys(("killed", "done before", "with buckets", "with parts", "differ"), 0)
    for at in range(count):
        process = _begun(folder, "out")
        time.sleep(draw.uniform(0, seconds))
        process.send_signal(signal.SIGKILL)
        process.wait()
        done = (folder / "out" / "toy.json").exists()
        outcome["done before" if done else "killed"] += 1
        outcome["with buckets"] += not done and any((folder / "out" / ".work").glob("0*"))
        outcome["with parts"] += not done and any((folder / "out").glob("part*"))
        if not done or (folder / "out" / ".work").exists():
            repeated = subprocess.run(_dispatch(folder, "out"), check=False, capture_output=True)
            assert (repeated.returncode == 0) != done, repeated.stderr
            assert sorted(path.name for path in folder.iterdir()) == names, "a repeated command leaves nothing else"
        outcome["differ"] += not _same(folder / "whole", folder / "out")
        shutil.rmtree(folder / "out")
        if (at + 1) % 10 == 0:
            print(f"{at + 1} of {count}: {json.dumps(outcome)}", file=sys.stderr, flush=True)
    return outcome


def _dispatch(folder, output):
    places = [str(folder / name) for name in ("chunks", "assigned")]
    options = ["-o", str(folder / output), "--name", "toy", "--memory", "0.01", "--threads", "2"]
    return [sys.executable, "-m", "backends.distpart", "dispatch", *places, *options]


def _begun(folder, output):
    """A dispatch that has made its folder: what comes before, importing, is nothing to resume."""
    process = subprocess.Popen(_dispatch(folder, output), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _wait_for(folder / output / ".work", process)
    return process


def _wait_for(path, process):
    while not path.exists() and process.poll() is None:
        time.sleep(0.001)


def _same(first, second):
    names, others = (sorted(str(path.relative_to(folder)) for path in folder.rglob("*")) for folder in (first, second))
    files = [name for name in names if (first / name).is_file()]
    return names == others and filecmp.cmpfiles(first, second, files, shallow=False)[0] == files


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    with tempfile.TemporaryDirectory() as place:
        print(json.dumps(kill_and_resume(parser.parse_args().count, Path(place))))
