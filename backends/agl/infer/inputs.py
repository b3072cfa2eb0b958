"""What ``python -m backends.agl.infer`` reads: the model, the graph of a folder or of tables, the targets."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from backends.agl.commandline import InferSettings
from backends.agl.flat.reader import GraphFeatureReader, sampling_of
from backends.agl.flat.sampling_strategy import (
    SamplingStrategy,
    refuse_other_file,
    refuse_unused_columns,
    usable_sampler,
)
from backends.agl.infer.job import Nodes, refuse_other_widths
from backends.agl.model_file import TrainedModel, read_model
from backends.agl.networks import read_state, spec_from_state
from datasets.array_files import save_array
from datasets.consistency import check_finite
from datasets.graph import Graph
from datasets.tables.columns import id_kind
from datasets.tables.node_stream import NAMES
from datasets.tables.reading import read_table

SAMPLING = ("fanouts", "seed", "sampler", "replacement", "slope")


def model_of(path: Path, settings: InferSettings, stated: list[str], code: Path | None = None) -> TrainedModel:
    """Read a model; ``stated`` are the settings of the command line, which may not contradict the model's file.

    The settings say how to sample for a file that does not; ``sampler=full`` reads all in-edges, however it was
    trained. ``code`` is the file of a user's model. Raises ValueError.
    """
    model = read_model(path, code)
    if model is None:
        return _without_strategy(path, settings)
    named = [name for name in SAMPLING if name in stated]
    if settings.sampler == "full" and named == ["sampler"]:
        spec = replace(model.spec, fanouts=())
        whole = SamplingStrategy((None,) * spec.layers, "full")
        return replace(model, spec=spec, strategy=whole, trained_by=model.strategy)
    if named:
        raise ValueError(
            f"{path} says how its neighbourhoods were sampled: leave out -c {', '.join(named)}, or give "
            "-c sampler=full alone to read all in-edges"
        )
    return model


def _without_strategy(path: Path, settings: InferSettings) -> TrainedModel:
    state = read_state(path)
    fanouts = () if settings.sampler == "full" else settings.fanouts
    spec = spec_from_state(state, str(path), settings.slope, fanouts)
    if not fanouts:
        return TrainedModel(spec, state, SamplingStrategy((None,) * spec.layers, "full"))
    sampler, sha256 = usable_sampler(settings.sampler)
    by = "weight" if sampler.needs_weight else None
    options = {"replacement": settings.replacement, "seed": settings.seed, "sha256": sha256}
    return TrainedModel(spec, state, SamplingStrategy(fanouts, settings.sampler, by, **options))


def graph_folder(folder: Path, advice: str) -> Path:
    """The folder of a prepared graph: the folder itself, or ``graph`` in a folder of GraphFlat.

    Raises ValueError with ``advice`` where there is none.
    """
    inner = folder / "graph"
    folder = inner if not (folder / "graph.json").is_file() and inner.is_dir() else folder
    if not (folder / "graph.json").is_file():
        raise ValueError(f"{folder} holds no prepared graph (graph.json): {advice}")
    return folder


def ids_of(graph: Graph, graph_folder: Path, targets: Nodes | None) -> Any:
    """The user's ids of the targets, or of all nodes: an array of numbers, or an Arrow array of names."""
    if (graph_folder / NAMES).is_file():
        from pyarrow import parquet

        names = parquet.read_table(graph_folder / NAMES, columns=["name"]).column("name").combine_chunks()
        return names if targets is None else names.take(targets)
    ids = np.arange(graph.nodes) if graph.node_ids is None else graph.node_ids
    return ids if targets is None else ids[targets]


def save_ids(folder: Path, ids: Any, column: str) -> Path:
    """Write ids into a folder, as ``-t`` reads them, and return the file.

    Numbers are ``nodes.npy``, text is ``column`` of ``nodes.parquet``.
    """
    if isinstance(ids, np.ndarray):
        save_array(path := folder / "nodes.npy", ids)
        return path
    from pyarrow import parquet, table

    parquet.write_table(table({column: ids}), path := folder / "nodes.parquet")
    return path


def check_graph(graph: Graph) -> None:
    """Raise ValueError for a graph without features, or with values that are not finite."""
    if graph.features is None:
        raise ValueError(f"the graph {graph.name} has no features: GraphInfer starts from them")
    try:
        check_finite(graph)
    except ValueError as error:
        raise ValueError(f"{graph.name}: {error}: mend the graph, then prepare it again") from error


def check_shards(reader: GraphFeatureReader, path: Path, model: TrainedModel) -> None:
    """Raise ValueError where shards were not sampled as the model was trained, or have other columns."""
    manifest, strategy = reader.manifest, sampling_of(reader)
    if _drawn(model.strategy) != _drawn(strategy) or model.filtering != manifest["filter"]:
        raise ValueError(
            f"{reader.folder} was sampled by {_sampling(strategy, manifest['filter'])}, {path} was trained on "
            f"{_sampling(model.strategy, model.filtering)}: flatten again with that, or score the graph"
        )
    refuse_other_file(model.strategy, strategy.sha256)
    refuse_other_widths(model.spec, manifest["width"], reader.edge_width, str(reader.folder))
    refuse_other_weights(model, bool(manifest["weighted"]), str(reader.folder))
    refuse_unused_columns(model.spec, strategy, model.filtering, reader.edge_columns, str(reader.folder))


def _drawn(strategy: SamplingStrategy | None) -> SamplingStrategy | None:
    """The strategy without what ``full``, which draws nothing, does not read."""
    whole = strategy is not None and strategy.method == "full"
    return replace(strategy, seed=0) if strategy is not None and whole else strategy


def refuse_other_weights(model: TrainedModel, weighted: bool, source: str) -> None:
    """Raise ValueError for a model that reads weights, where the edges of ``source`` have some and its own had none.

    Likewise where the model was trained with weights and ``source`` has none.
    """
    if "weight" in model.spec.edge_columns and model.weighted not in (None, weighted):
        trained, other = ("weights", "none") if model.weighted else ("no weights", "some")
        raise ValueError(
            f"the model was trained on edges with {trained}, {source} has {other}: name their column by --weight, or "
            "train on edges like these"
        )


def _sampling(strategy: SamplingStrategy | None, filtering: str | None) -> str:
    return f"{strategy} of the edges where {filtering or 'nothing is filtered'}"


def targets_of(path: Path, graph: Graph, graph_folder: Path, column: str) -> Nodes:
    """Read the nodes to score, by ids from the column of a table or from ``.npy``; raises ValueError.

    An array of numbers holds rows of the node table where its ids are text.
    """
    from pyarrow import array, compute

    known = ids_of(graph, graph_folder, None)
    are_names = not isinstance(known, np.ndarray)
    known = known if are_names else array(known.astype(np.int64))
    if path.suffix == ".npy":
        numbers = _numbers(path)
        if are_names:
            return numbers
        places = compute.index_in(array(numbers), value_set=known)
        if places.null_count:
            number = numbers[np.argmax(places.is_null())]
            raise ValueError(f"{path}: no node has the id {number}: leave it out, or add it to the node table")
    else:
        table = read_table(str(path), "targets", text=(column,) if are_names else (), ids=(column,))
        if (id_kind(table.ids(column)) == "strings") != are_names:
            raise ValueError(
                f"{path}: column {column!r} holds ids of another kind than the node table: give both alike"
            )
        places = compute.index_in(table.column(column).cast(known.type), value_set=known)
        unknown = np.asarray(places.is_null())
        table.refuse(column, unknown, "no node has this id: add it to the node table or remove this row")
    return places.to_numpy().astype(np.int64)


def _numbers(path: Path) -> Nodes:
    try:
        targets = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is no whole .npy file of numbers ({error}): save the targets again") from error
    if not isinstance(targets, np.ndarray) or targets.ndim != 1 or targets.dtype.kind not in "iu":
        content = f"{targets.dtype} of shape {targets.shape}" if isinstance(targets, np.ndarray) else "several arrays"
        raise ValueError(f"{path} holds {content}: give node numbers")
    return targets.astype(np.int64)
