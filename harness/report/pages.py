"""Pages of ``reports/``: a pure function of the records and of this checkout, twice the same bytes."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.report import epochs, figures, kernels, tables
from harness.report.commandline import command, overrides
from harness.report.parts import Comparison, DatasetPart, chosen, dataset_parts
from harness.report.rows import Found, Row
from harness.store.files import environment_of, find_records
from harness.store.naming import flatten
from harness.store.record import RecordError

TEMPLATES = Path(__file__).parent / "templates"
COUNTS = ("nodes", "edges", "features", "classes", "train", "validation", "test", "self_loops_dropped")

MARK = "gnn-harness report"
GAT = ("heads", "output_heads", "slope")
TRUST = {
    "manifest": "equal to the hash in the manifest",
    "first use": "trusted on first use: no hash was at hand before, size and counts were checked",
    "local": "a local file that no manifest knows",
    "generated": "generated here from a seed",
}


def write_reports(results: Path, out: Path) -> list[Path]:
    """Write all pages and figures below ``out`` and return them; raises RecordError when there is no record.

    Files of an earlier report that are no longer made are deleted; what carries no mark of a report is left alone.
    """
    found = list(find_records(results))
    if not found:
        raise RecordError(f"{results} holds no records: run `python -m harness` first, or name another folder")
    names = sorted({record["environment"] for _, record in found})
    environments = {name: environment_of(results, name) for name in names}
    parts = dataset_parts(results, found, environments)
    trained = chosen(parts, lambda scenario: scenario != "spmm")
    multiplied = chosen(parts, lambda scenario: scenario == "spmm", "-kernels")
    full = epochs.full_batches(trained)
    texts = {f"figures/{part.figure}": figures.epoch_times(part.comparisons) for part in trained}
    texts |= {f"figures/{part.figure}": figures.epoch_times(_typical(part)) for part in multiplied}
    texts["comparison.md"] = _page("comparison.md.j2", trained, environments, out)
    if multiplied:
        texts["figures/speedups.svg"] = figures.speedups(kernels.cells(multiplied))
        far = kernels.far(multiplied)
        texts["kernels.md"] = _page("kernels.md.j2", multiplied, environments, out, figure="speedups.svg", far=far)
    if full:
        texts["epochs.md"] = _render("epochs.md.j2", parts=full)
    counted = {"records": len(found), "statuses": _statuses(found)}
    texts["README.md"] = _render("README.md.j2", parts=trained, multiplied=multiplied, full=full, **counted)
    return _write(out, texts)


def _typical(part: DatasetPart) -> list[Comparison]:
    """Tables of a figure: 64 wide, one head, native order; the first where there is none."""
    typical = [held for held in part.comparisons if ", 64 wide, " in held.title and " order, " not in held.title]
    return [held for held in typical if not _many_heads(held)] or part.comparisons[:1]


def _many_heads(comparison: Comparison) -> bool:
    model = comparison.rows[0].record["config"]["model"]
    return bool(model["name"] == "gat" and model["heads"] != 1)


def settings(comparison: Comparison) -> str:
    """Model, training and options of the data set of a table in one line."""
    config = comparison.rows[0].record["config"]
    training = {key: value for key, value in config["training"].items() if key != "dtype" and value is not None}
    model = {key: value for key, value in config["model"].items() if config["model"]["name"] == "gat" or key not in GAT}
    held = flatten({"model": model, "training": training, "dataset": config["dataset"].get("options") or {}})
    parts = [f"{key.partition('.')[2] or key} {value}" for key, value in held.items() if value not in ("none", [], {})]
    return ", ".join(part for part in parts if not part.startswith("name "))


def counts(part: DatasetPart) -> str:
    """The counts of a data set as held, beside the published ones."""
    held = next((row.record["dataset"] for row in _rows(part) if row.record.get("dataset", {}).get("counts")), None)
    if held is None:
        return "Its counts are not known: no cell got as far as reading it."
    mine, published = held["counts"], held.get("published") or {}
    names = [name for name in COUNTS if name in mine or name in published]
    lines = [
        ["as held", *[f"{mine[name]:,}" if name in mine else tables.NOTHING for name in names]],
        ["published", *[f"{published[name]:,}" if name in published else tables.NOTHING for name in names]],
    ]
    return tables.markdown(["", *[name.replace("_", " ") for name in names]], lines)


def structure(held: Mapping[str, Any]) -> str:
    """Density, degrees and the share of edges by density of the 32 x 32 tile that holds them, in one sentence."""
    degrees = held["degrees"]
    tiles = ", ".join(f"{name} %: {share:.1%}" for name, share in held["tiles"].items())
    return (
        f"Density {held['density']:.2e}; in-degree median {degrees['median']:.0f}, mean {degrees['mean']:.1f}, largest "
        f"{degrees['max']:,.0f}, the top 1 % of nodes holds {degrees['top_1_percent']:.0%} of the edges. "
        f"Share of edges in 32 x 32 tiles of density {tiles}."
    )


def dataset(part: DatasetPart) -> dict[str, Any]:
    """What the records know of a data set."""
    return next((row.record["dataset"] for row in _rows(part) if row.record.get("dataset")), {"name": part.name})


def trust(origin: str | None) -> str:
    """Say in words why a data set's files are believed."""
    return TRUST.get(origin or "", origin or "unchecked")


def redo(comparison: Comparison) -> list[str]:
    """Commands that measure a table again: rows that differ in the backend only in one, as ratios need one group."""
    gathered: dict[tuple[str, ...], list[Row]] = {}
    for row in comparison.rows:
        rest = tuple(text for text in overrides(row.record) if not text.startswith("backend="))
        gathered.setdefault(rest, []).append(row)
    commands = []
    for rest, held in gathered.items():
        seeds = {record["config"]["seed"] for row in held for _, record in row.cells}
        commands.append(command((row.record["config"]["backend"]["name"] for row in held), rest, seeds))
    return commands


def notes(row: Row) -> str:
    """What a reader must know to trust a row, in one line; empty when there is nothing."""
    limited = row.record.get("extrapolated")
    counted = {
        "disturbed samples, repeated": row.disturbed(),
        "outlying samples (modified z-score above 3.5), kept": row.outlying(),
        "older records, superseded and not pooled": row.older,
    }
    said = [f"epoch extrapolated from 1/{limited:.3g} of its batches"] if limited else []
    said += [f"{what}: {count}" for what, count in counted.items() if count]
    bad = [record for _, record in row.cells if record["status"] != "ok"]
    said += [f"seed {record['config']['seed']} ended as {record['status']}" for record in bad if row.ok]
    return "; ".join(said)


def _rows(part: DatasetPart) -> list[Row]:
    return [row for comparison in part.comparisons for row in comparison.rows]


def _page(
    template: str, parts: list[DatasetPart], environments: Mapping[str, dict[str, Any]], out: Path, **values: Any
) -> str:
    cited = {record["environment"] for part in parts for row in _rows(part) for _, record in row.cells}

    def link(path: Path) -> str:
        return Path(os.path.relpath(path, out)).as_posix()

    return _render(
        template,
        parts=parts,
        environments={name: flatten(environments[name]) for name in sorted(cited)},
        known={row.record["config"]["dataset"]["name"] for part in parts for row in _rows(part)},
        synthetic=any(dataset(part).get("synthetic") for part in parts),
        link=link,
        **values,
    )


def _render(template: str, **values: Any) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    engine = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    helpers = (settings, counts, structure, dataset, trust, redo, notes)
    engine.globals |= {function.__name__: function for function in helpers} | {
        "tables": tables,
        "kernels": kernels,
        "epochs": epochs,
    }
    return engine.get_template(template).render(**values)


def _statuses(found: Iterable[Found]) -> dict[str, int]:
    counted: dict[str, int] = {}
    for _, record in found:
        counted[record["status"]] = counted.get(record["status"], 0) + 1
    return dict(sorted(counted.items()))


def _write(out: Path, texts: Mapping[str, str]) -> list[Path]:
    written = []
    for name, text in texts.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    for path in sorted({*out.glob("*.md"), *(out / "figures").glob("*.svg")} - set(written)):
        if MARK in path.read_text(encoding="utf-8")[:1000]:
            path.unlink()
    return written
