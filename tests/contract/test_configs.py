"""Every file of conf/ against the registries and the schemas: composed as a command line would, loaded strictly."""

import itertools
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from backends.model_names import CONVOLUTIONS, MODELS
from backends.registry import MODULES, config_class
from datasets.order import order_names
from datasets.registry import DATASETS
from harness.planning.cells import resolve_cell
from harness.planning.compose import CONF, Composition, compose_arguments, compose_one
from harness.planning.config import SECTIONS, load
from harness.planning.suite import expand, read_suite
from harness.track import TRACKERS

GROUPS = sorted(path.name for path in CONF.iterdir() if path.is_dir())


def names(group: str) -> list[str]:
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


def known_ablations(backend: str) -> list[str]:
    named = list(config_class(backend).ablations)
    return [*named, "base"] if named else []


def content(group: str, name: str) -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load((CONF / group / f"{name}.yaml").read_text()) or {}
    return values


@pytest.mark.parametrize(
    ("group", "registered"),
    [
        ("backend", MODULES),
        ("dataset", DATASETS),
        ("order", order_names()),
        ("model", MODELS),
        ("tracker", TRACKERS),
        ("scenario", {name for kind in map(config_class, MODULES) for name in kind.runtimes}),
        ("ablation", {name for backend in MODULES for name in known_ablations(backend)}),
    ],
)
def test_every_registered_name_has_a_file_and_every_file_a_name(group: str, registered: Any) -> None:
    assert names(group) == sorted(registered)


@pytest.mark.parametrize("backend", MODULES)
def test_a_backend_composes_to_its_class_and_defaults(backend: str) -> None:
    config = load(compose_one([f"backend={backend}", "dataset=cora", "model=gcn"]))
    assert config.backend == config_class(backend)(), "YAML and dataclass disagree on a default"


@pytest.mark.parametrize("backend", MODULES)
def test_a_backends_file_states_every_field(backend: str) -> None:
    assert set(content("backend", backend)) == {field.name for field in fields(config_class(backend))} | {"defaults"}


@pytest.mark.parametrize(
    ("group", "name"),
    [("model", name) for name in names("model")]
    + [("scenario", name) for name in names("scenario")]
    + [("training", "default"), ("measure", "default"), ("launcher", "process"), ("tracker", "none")],
)
def test_a_sections_file_states_every_field(group: str, name: str) -> None:
    left_out = {"name"} if group in ("training", "measure") else set()
    assert set(content(group, name)) - {"defaults"} == {field.name for field in fields(SECTIONS[group])} - left_out


@pytest.mark.parametrize(
    "override",
    [f"{group}={name}" for group in GROUPS for name in names(group) if group not in ("ablation", "suite", "recipe")],
)
def test_every_choice_composes_and_loads(override: str) -> None:
    group, _, name = override.partition("=")
    section = getattr(load(compose_one([override])), group)
    assert getattr(section, "name", name) in (name, "process", "none")


@pytest.mark.parametrize("name", names("ablation"))
def test_an_ablation_only_adds_its_name(name: str) -> None:
    assert content("ablation", name) == {"ablations": {name: True}}
    assert (CONF / "ablation" / f"{name}.yaml").read_text().startswith("# @package _global_\n")
    owner = next(backend for backend in MODULES if name in known_ablations(backend))
    assert resolve_cell(load(compose_one([f"+ablation={name}", f"backend={owner}"]))).config_diff


def test_ablations_stack() -> None:
    config = load(compose_one(["+ablation=[pruning,partition]"]))
    assert config.ablations == {"pruning": True, "partition": True}


@pytest.mark.parametrize("name", names("recipe"))
def test_a_recipe_belongs_to_a_pair_or_to_other_recipes(name: str) -> None:
    pairs = {f"{dataset}_{model}" for dataset in DATASETS for model in MODELS}
    used = {parent for other in names("recipe") for parent in content("recipe", other).get("defaults", [])}
    assert name in pairs | used
    assert (CONF / "recipe" / f"{name}.yaml").read_text().startswith("# @package _global_\n")


def test_a_recipe_applies_unless_the_command_line_overrides_it() -> None:
    gat = load(compose_one(["dataset=cora", "model=gat"]))
    assert (gat.training.rate, gat.training.attention_dropout, gat.model.heads) == (0.005, 0.6, 8)
    pubmed = load(compose_one(["dataset=pubmed", "model=gat"]))
    assert (pubmed.training.rate, pubmed.model.output_heads, pubmed.training.dropout) == (0.01, 8, 0.6)
    overridden = load(compose_one(["dataset=cora", "model=gat", "training.rate=0.5", "model.heads=2"]))
    assert (overridden.training.rate, overridden.model.heads, overridden.training.dropout) == (0.5, 2, 0.6)
    assert (
        load(compose_one(["dataset=reddit", "model=gat"])).training == load(compose_one(["dataset=archaea"])).training
    )


def test_each_composition_of_a_sweep_has_its_own_recipe() -> None:
    compositions = compose_arguments(["-m", "dataset=cora,ppi_recovered", "model=gcn,gat", "training.epochs=7"])
    configs = [load(composition.values) for composition in compositions]
    recipes = {
        (config.dataset.name, config.model.name): (config.model.hidden, config.training.decay) for config in configs
    }
    assert recipes == {
        ("cora", "gcn"): (16, 5e-4),
        ("cora", "gat"): (8, 5e-4),
        ("ppi_recovered", "gcn"): (64, 0.0),
        ("ppi_recovered", "gat"): (64, 0.0),
    }
    assert {config.training.epochs for config in configs} == {7}


def test_full_batch_where_graphs_are_small_and_mini_batches_on_uug() -> None:
    for dataset, size in (("cora", None), ("citeseer", None), ("pubmed", None), ("ppi", None), ("uug", 1024)):
        for model in CONVOLUTIONS:
            assert load(compose_one([f"dataset={dataset}", f"model={model}"])).training.batch_size == size


def test_a_glob_matches_every_backend_and_no_schema() -> None:
    compositions = compose_arguments(["-m", "backend=glob(*)", "dataset=cora"])
    assert sorted(composition.values["backend"]["name"] for composition in compositions) == sorted(MODULES)


def cells_with_new_values(product: dict[str, list[Any]], seen: set[tuple[str, str]]) -> list[dict[str, list[Any]]]:
    """Single cells of a product in which each value that is not in ``seen`` occurs, at least one; adds the values."""
    new = {axis: [value for value in values if (axis, str(value)) not in seen] for axis, values in product.items()}
    seen |= {(axis, str(value)) for axis, values in product.items() for value in values}
    columns = {axis: new[axis] or values[:1] for axis, values in product.items()}
    return [
        {axis: [values[min(at, len(values) - 1)]] for axis, values in columns.items()}
        for at in range(max(map(len, columns.values())))
    ]


@pytest.mark.parametrize("name", names("suite"))
def test_every_value_of_a_suite_loads(name: str) -> None:
    suite = read_suite(content("suite", name))
    assert suite.name == name and set(suite.tiers) == {"quick", "full"}
    assert all({"dataset", "model", "metric", "value", "source"} <= set(row) for row in suite.published)
    composition = Composition(compose_one([f"+suite={name}"]), [f"+suite={name}"])
    # Hundreds of cells take a fifth of a second each: every value of every axis is enough.
    seen: set[tuple[str, str]] = set()
    for tier, products in suite.tiers.items():
        assert {"dataset", "model", "backend", "seed"} <= {axis for product in products for axis in product}
        cells = [cell for product in products for cell in cells_with_new_values(product, seen)]
        composition.values["suite"]["tiers"][tier] = cells
        configs = [load(expanded.values) for expanded, _ in expand(of_tier(composition, tier))]
        assert configs and {config.suite for config in configs} == {name}


@pytest.mark.parametrize("name", names("suite"))
def test_ranks_are_cut_where_the_blocks_of_an_order_are(name: str) -> None:
    usual = {"order.options.blocks": [content("order", "blockwise")["options"]["blocks"]], "backend.replication": [1]}
    for product in itertools.chain(*content("suite", name)["tiers"].values()):
        axes = usual | product
        if "blockwise" in axes.get("order", []) and axes.get("backend.ranks", [1]) != [1]:
            row_blocks = {
                ranks // r for ranks, r in itertools.product(axes["backend.ranks"], axes["backend.replication"])
            }
            assert row_blocks == set(axes["order.options.blocks"])
            assert axes.get("backend.bounds") in (["parts"], ["rows"])


def test_the_published_thresholds_of_tiles_are_measured_in_both_tiers() -> None:
    suite = content("suite", "blocksparse_threshold")
    published = {float(row[0].rpartition(" ")[2]) for row in suite["paper"]["thresholds"]}
    for products in suite["tiers"].values():
        assert published <= set(products[0]["backend.density_threshold"])


def of_tier(composition: Composition, tier: str) -> Composition:
    return Composition(composition.values | {"tier": tier}, [*composition.overrides, f"tier={tier}"])


def test_the_suites_of_this_harness() -> None:
    composition = Composition(compose_one(["+suite=cora_accuracy", "tier=full"]), ["+suite=cora_accuracy", "tier=full"])
    configs = [load(expanded.values) for expanded, _ in expand(composition)]
    assert len(configs) == 5 * 2 * 10 * 2  # agl with sparse and with dense features
    cells = {(c.dataset.name, c.model.name, c.backend.name, getattr(c.backend, "sparse", ""), c.seed) for c in configs}
    assert len(cells) == len(configs)


def test_every_file_begins_with_a_comment() -> None:
    for path in sorted(Path(CONF).rglob("*.yaml")):
        assert any(line.startswith("# ") and "@package" not in line for line in path.read_text().splitlines()[:3]), path
