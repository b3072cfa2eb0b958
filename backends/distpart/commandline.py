"""The command line of partitioning: one command for each step, and one for all of them."""

import argparse
import errno
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from backends.distpart.assign import METHODS, OBJECTIVES, AssignOptions, assign, constraints
from backends.distpart.convert import ConvertOptions, convert
from backends.distpart.dglpart import dglpart, dglpart_of_lists, run_pm_dglpart
from backends.distpart.dispatch.forecast import Forecast
from backends.distpart.dispatch.job import RUN_ON, UNKNOWN, DispatchJob, DispatchOptions
from backends.distpart.dispatch.numbering import Numbering
from backends.distpart.files.assignment import read_assignment, refuse_existing, write_assignment
from backends.distpart.files.chunked import FORMATS, read_chunked, write_chunked
from backends.distpart.files.columns import mapped
from backends.distpart.open_files import allow_most
from backends.distpart.partition_graph import write_partition
from backends.distpart.restore import restore
from backends.distpart.typed_graph import GraphError, TypedGraph, check_names, typed_graph
from backends.distpart.uug_stream import NAME as STREAM
from backends.distpart.uug_stream import uug_stream
from backends.distpart.verify import verify
from backends.distpart.workspace import workspace
from backends.progress import gibibytes, step_progress
from datasets.graph import Graph
from datasets.paths import default_cache
from datasets.prepare import prepare_graph

GIBIBYTE = 1 << 30


def main(arguments: list[str] | None = None) -> int:
    """Run a command; 0 done, 1 memory, disk or a file failed, 2 the arguments or the input are wrong."""
    parsed = _parser().parse_args(arguments)
    try:
        allow_most()
        with _workspace(parsed) as parsed.workspace:
            parsed.run(parsed)
    except (ValueError, KeyError, OSError, MemoryError) as error:
        print(f"error: {_advice(error)}", file=sys.stderr)
        return 2 if isinstance(error, (ValueError, KeyError)) else 1
    return 0


def _advice(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return str(error) or "out of memory: lower --memory or --threads"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"{error}: free some space and repeat the command, which goes on where it stopped"
    return str(error.args[0]) if isinstance(error, KeyError) else str(error)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m backends.distpart", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")

    def command(name: str, run: Callable[[Any], None], text: str) -> argparse.ArgumentParser:
        options = commands.add_parser(name, help=text, description=text)
        options.set_defaults(run=run)
        return options

    options = command("partition", _partition, "assign and dispatch, as dgl.distributed.partition_graph does")
    _add_graph(options)
    _add_output(options)
    _add_assign(options)
    _add_dispatch(options)
    _add_resources(options)
    options.add_argument("--trainers", type=int, default=1, help="trainers per machine: as many parts in each part (1)")

    options = command("chunk", _chunk, "write a data set as a chunked graph")
    _add_graph(options)
    _add_output(options)
    options.add_argument("--chunks", type=int, default=1, help="files per array (1)")
    options.add_argument("--format", default="numpy", choices=FORMATS, help="of attributes (numpy)")
    options.add_argument("--edge-format", default="csv", choices=FORMATS, help="of edges (csv, which DGL's tools read)")

    options = command(
        "assign", _assign, "assign the nodes of a graph to parts, as a folder that DGL's dispatcher takes"
    )
    _add_graph(options)
    _add_output(options)
    _add_assign(options)
    _add_resources(options)

    options = command("dispatch", _dispatch, "write the parts of a graph by an assignment")
    _add_graph(options)
    options.add_argument("assignment", type=Path, help="a folder with a part per line for each node type")
    _add_output(options)
    _add_dispatch(options)
    _add_resources(options)

    options = command("verify", _verify, "read all parts back and compare them with the graph")
    _add_graph(options)
    options.add_argument("config", type=Path, help="the JSON of the partition")

    options = command("restore", _restore, "rows by new id, such as embeddings, back in the order of original ids")
    options.add_argument("config", type=Path, help="the JSON of the partition")
    options.add_argument("rows", type=Path, help="a NumPy file")
    _add_output(options)
    options.add_argument("--type", help="node type or canonical edge type (the only node type)")

    options = command(
        "dglpart", _dglpart, "partition <name>_{nodes,edges,stats}.txt of this folder, as pm_dglpart does"
    )
    options.add_argument("name", help="the graph's name in the names of the files")
    options.add_argument("parts", type=int, help="parts per process")
    options.add_argument("lists", nargs="*", type=Path, help="today's dialect: a list of files of nodes, one of edges")
    options.add_argument("-np", type=int, default=1, dest="processes", help="processes: parts are this many times (1)")
    options.add_argument("-o", "--output", type=Path, default=Path(), help="folder of the parts (this one)")
    options.add_argument("--tool", choices=["pm_dglpart"], help="run that program, which must be on PATH, instead")
    _add_quality(options)
    _add_resources(options, " beside the text and its numbers, which all lie in memory")

    options = command("convert", _convert, "turn the text parts of dglpart into DGL's files")
    for name in ("input-dir", "schema", "output"):
        options.add_argument(f"--{name}", type=Path, required=True)
    options.add_argument("--graph-name", required=True)
    for name in ("num-parts", "num-node-weights"):
        options.add_argument(f"--{name}", type=int, required=True)
    options.add_argument("--workspace", help=argparse.SUPPRESS)  # of DGL's tool; nothing is written outside the output
    options.add_argument("--node-attr-dtype", help="type of the nodes' attributes, which are left out otherwise")
    options.add_argument("--edge-attr-dtype", help="type of the edges' attributes, which are left out otherwise")
    options.add_argument("--removed-edges", help="file of INPUT_DIR with edges that were removed before partitioning")
    _add_dispatch(options, named=False)
    _add_resources(options, " beside the text and its numbers, which all lie in memory")
    return parser


def _add_graph(options: argparse.ArgumentParser) -> None:
    options.add_argument("graph", help=f"a folder with a chunked graph, a data set, or {STREAM}: never stored")
    options.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="of the data set")


def _add_output(options: argparse.ArgumentParser) -> None:
    options.add_argument("-o", "--output", type=Path, required=True, help="what to write; must not exist")


def _add_assign(options: argparse.ArgumentParser) -> None:
    options.add_argument("-p", "--parts", type=int, required=True)
    options.add_argument("--balance-edges", action="store_true", help="balance in-degrees")
    options.add_argument("--balance", help="attribute whose values are classes of nodes to balance: train_mask")
    _add_quality(options)


def _add_quality(options: argparse.ArgumentParser) -> None:
    options.add_argument("--method", default="multilevel", choices=METHODS)
    options.add_argument("--objective", default="cut", choices=list(OBJECTIVES))
    options.add_argument("--imbalance", type=float, default=1.03, help="largest load of a part over the mean (1.03)")
    options.add_argument("--strict", action="store_true", help="fail where a bound is not reached")
    options.add_argument("--seed", type=int, default=0)


def _add_resources(options: argparse.ArgumentParser, text: str = "") -> None:
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--memory", type=_amount, default=2.0, help=f"GiB to work in{text} (2)")


def _amount(text: str) -> float:
    """A finite number above 0."""
    with suppress(ValueError):
        if 0 < (value := float(text)) < math.inf:
            return value
    raise argparse.ArgumentTypeError(f"{text} is not allowed: a number above 0 is needed")


def _add_dispatch(options: argparse.ArgumentParser, *, named: bool = True) -> None:
    if named:
        options.add_argument("--name", help="the graph's name in DGL (that of the graph)")
    options.add_argument("--hops", type=int, default=1, help="hops of HALO nodes (1)")
    options.add_argument("--orig-id", action="store_true", help="also store original ids in the graphs")
    options.add_argument(
        "--run-on", default="local", choices=RUN_ON, help="threads of this process, or Ray tasks (local)"
    )
    options.add_argument("--address", help="of --run-on ray: a running cluster that shares these folders")


def _workspace(parsed: Any) -> AbstractContextManager[Path | str]:
    """A folder beside what is written, on its disk; the system's for commands that write nothing, or spool nothing."""
    if parsed.run is _dglpart and not parsed.tool:
        return workspace(parsed.output.resolve() / f".{parsed.name}.workspace")
    if not hasattr(parsed, "graph") or not hasattr(parsed, "output"):
        return tempfile.TemporaryDirectory(prefix="distpart-")
    output = parsed.output.resolve()
    return workspace(output.with_name(f".{output.name}.workspace"))


@contextmanager
def _graph_of(parsed: Any) -> Iterator[TypedGraph]:
    """The graph that is named: a folder, whose text files are unpacked while it is used, a data set, or a stream."""
    folder = Path(parsed.graph)
    if folder.is_dir():
        if parsed.option:
            raise ValueError(f"--option is for data sets, {folder} is a folder")
        yield read_chunked(folder, Path(parsed.workspace))
        return
    options = {key: _value(value) for key, value in map(_key_and_value, parsed.option)}
    if parsed.graph == STREAM:
        yield uug_stream(options, getattr(parsed, "threads", None))
    else:
        folder, _ = prepare_graph(_Choice(parsed.graph, options), _Choice("none", {}), default_cache())
        yield typed_graph(Graph.load(folder))


@dataclass(frozen=True)
class _Choice:
    name: str
    options: dict[str, Any]


def _key_and_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--option {text} is not of the form KEY=VALUE")
    return key, value


def _value(text: str) -> Any:
    """A number, a truth value or text, as JSON writes them."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _weights(graph: TypedGraph, parsed: Any) -> Any:
    classes, memory = _classes(graph, parsed.balance), int(parsed.memory * GIBIBYTE)
    return constraints(graph, node_types=classes, edges=parsed.balance_edges, memory=memory)


def _classes(graph: TypedGraph, attribute: str | None) -> dict[str, Any] | None:
    if attribute is None:
        return None
    chosen = {kind: arrays[attribute] for kind, arrays in graph.node_data.items() if attribute in arrays}
    for kind, array in chosen.items():
        if math.prod(array.shape[1:]) != 1:
            shape = list(array.shape[1:])
            raise GraphError(f"{kind}/{attribute} has rows of {shape}: classes are one number for each node")
    if not chosen:
        names = sorted({name for arrays in graph.node_data.values() for name in arrays})
        raise GraphError(f"no node type has {attribute}: there are {', '.join(names) or 'no attributes'}")
    return {kind: np.asarray(array[:]) for kind, array in chosen.items()}


def _assign_options(parsed: Any, parts: int) -> AssignOptions:
    return AssignOptions(
        parts,
        parsed.method,
        parsed.imbalance,
        parsed.objective,
        parsed.seed,
        parsed.threads,
        parsed.strict,
        int(parsed.memory * GIBIBYTE),
        Path(parsed.workspace),
    )


def _dispatch_options(parsed: Any, method: str) -> DispatchOptions:
    return DispatchOptions(
        int(parsed.memory * GIBIBYTE),
        parsed.threads,
        parsed.run_on,
        parsed.address,
        parsed.hops,
        parsed.orig_id,
        method,
    )


def _partition(parsed: Any) -> None:
    started = time.perf_counter()
    with _graph_of(parsed) as graph, step_progress() as progress:
        options, name = _assign_options(parsed, parsed.parts), parsed.name or graph.name
        dispatch = _dispatch_options(parsed, parsed.method)
        write_partition(
            graph, name, parsed.output, _weights(graph, parsed), options, dispatch, parsed.trainers, progress
        )
    _say_done(parsed.output, started)


def _chunk(parsed: Any) -> None:
    with _graph_of(parsed) as graph:
        write_chunked(graph, parsed.output, parsed.chunks, parsed.format, parsed.edge_format)
    print(f"{graph.total_nodes:,} nodes, {graph.total_edges:,} edges in {parsed.chunks} chunks: {parsed.output}")


def _assign(parsed: Any) -> None:
    refuse_existing(parsed.output)
    with _graph_of(parsed) as graph, step_progress() as progress:
        check_names(graph)
        parts = assign(graph, _weights(graph, parsed), _assign_options(parsed, parsed.parts), progress)
        write_assignment(graph, parts, parsed.parts, parsed.method, parsed.output)
    sizes = np.bincount(parts, minlength=parsed.parts)
    print(f"{len(parts):,} nodes in {parsed.parts} parts of {sizes.min():,} to {sizes.max():,}: {parsed.output}")


def _dispatch(parsed: Any) -> None:
    started = time.perf_counter()
    with _graph_of(parsed) as graph, step_progress() as progress:
        parts, count, method = read_assignment(graph, parsed.assignment)
        options = _dispatch_options(parsed, method)
        forecast = Forecast.of(graph, options.memory, options.threads, options.hops)
        print(
            f"forecast: {gibibytes(forecast.memory)} of memory at least, {gibibytes(forecast.disk)} on disk",
            file=sys.stderr,
        )
        numbering = Numbering.of(graph, parts, count)
        DispatchJob(graph, numbering, parsed.output, parsed.name or graph.name, options, progress).run()
    _say_done(parsed.output, started)


def _say_done(folder: Path, started: float) -> None:
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{gibibytes(size)} in {time.perf_counter() - started:.1f} s: {folder}")


def _verify(parsed: Any) -> None:
    with _graph_of(parsed) as graph:
        print(json.dumps(verify(graph, parsed.config)))


def _restore(parsed: Any) -> None:
    if parsed.output.exists():
        raise ValueError(f"{parsed.output} exists: choose another file")
    restore(parsed.config, mapped(parsed.rows, str(parsed.rows)), parsed.type, parsed.output)


def _dglpart(parsed: Any) -> None:
    count = parsed.parts * parsed.processes
    if parsed.parts < 1 or parsed.processes < 1:
        raise ValueError(f"parts={parsed.parts} and -np {parsed.processes} must be at least 1")
    if parsed.tool:
        run_pm_dglpart([parsed.name, str(parsed.parts), *map(str, parsed.lists)], parsed.processes, Path())
        return
    options = _assign_options(parsed, count)
    if parsed.lists and len(parsed.lists) != 2:
        raise ValueError(f"{len(parsed.lists)} lists: give one of files of nodes and one of files of edges, or none")
    if parsed.lists:
        parts = dglpart_of_lists(parsed.name, *parsed.lists, parsed.output, options)
    else:
        parts = dglpart(parsed.name, Path(), parsed.output, options)
    print(f"{len(parts):,} nodes in {count} parts: {parsed.output}")


def _convert(parsed: Any) -> None:
    started = time.perf_counter()
    removed = None if parsed.removed_edges is None else parsed.input_dir / parsed.removed_edges
    options = ConvertOptions(
        parsed.input_dir,
        parsed.graph_name,
        parsed.schema,
        parsed.num_parts,
        parsed.num_node_weights,
        parsed.node_attr_dtype,
        parsed.edge_attr_dtype,
        removed,
    )
    with step_progress() as progress:
        convert(options, parsed.output, _dispatch_options(parsed, UNKNOWN), progress)
    _say_done(parsed.output, started)
