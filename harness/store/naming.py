"""Labels of rows: backend, variant, values other than the defaults, ablations."""

from collections.abc import Mapping, Sequence
from typing import Any

from backends.registry import usable_class
from harness.planning.schema import is_label
from harness.store.record import Record


def label(record: Record) -> str:
    """Name a cell's engine as a table does: ``"agl +pruning"``, ``"pyg csr"``, ``"dgl stock"``."""
    config = record["config"]
    backend, order = config["backend"], config.get("order", {}).get("name", "none")
    dtype = config.get("training", {}).get("dtype", "float32")
    # The facts name the variant of an engine that chose it itself.
    words = [backend["name"], record.get("facts", {}).get("variant") or backend.get("variant") or ""]
    words += ["" if order == "none" else f"order={order}", "" if dtype == "float32" else dtype]
    allocator = config.get("launcher", {}).get("allocator", "tuned")
    words += ["" if allocator == "tuned" else allocator]
    words += [f"loss={backend['loss']}" if has_lent_loss(config) else ""]
    words += ["our khop" if "khop" in record.get("facts", {}).get("batches_by", "") else ""]
    words += [f"+{name}" for name in sorted(record.get("ablations", []))]
    return " ".join(word for word in words if word)


def has_lent_loss(config: Mapping[str, Any]) -> bool:
    """Whether an engine trained with another engine's form of the loss, to compare the two at equal losses."""
    backend = usable_class(config["backend"]["name"])
    own = getattr(backend, "loss", None)
    return bool(config["backend"].get("loss", own) != own)


def labels(records: Sequence[Record]) -> list[str]:
    """Give several cells different names: equal labels are extended by the config keys in which their cells differ."""
    names = [label(record) for record in records]
    flat = [flatten(record["config"]) for record in records]
    for name in {name for name in names if names.count(name) > 1}:
        same = [index for index, other in enumerate(names) if other == name]
        differing = _differing([flat[index] for index in same])
        for index in same:
            added = [f"{key.removeprefix('backend.')}={flat[index].get(key)}" for key in differing]
            names[index] = " ".join([name, *added])
    return names


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Turn nested keys into dotted ones; lists stay values."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _differing(configs: list[dict[str, Any]]) -> list[str]:
    keys = sorted({key for config in configs for key in config})
    return [key for key in keys if is_label(key) and len({str(config.get(key)) for config in configs}) > 1]
