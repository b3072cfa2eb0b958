"""Labels of rows: backend, variant, values other than the defaults, ablations; settings that tell titles apart."""

from collections.abc import Mapping, Sequence
from itertools import combinations
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
    launcher = config.get("launcher", {})
    name, allocator = launcher.get("name", "process"), launcher.get("allocator", "tuned")
    words += ["" if name == "process" else name, "" if allocator == "tuned" else allocator]
    words += [f"loss={backend['loss']}" if has_lent_loss(config) else ""]
    words += [f"input={form}" if (form := backend.get("input", "dense")) != "dense" else ""]
    words += ["our khop" if "khop" in record.get("facts", {}).get("batches_by", "") else ""]
    # Time or memory ended the process before it told its variant and who made its batches.
    words += ["facts unknown" if "status" in record.get("facts", {}) else ""]
    words += [f"+{name}" for name in sorted(record.get("ablations", []))]
    return " ".join(word for word in words if word)


def has_lent_loss(config: Mapping[str, Any]) -> bool:
    """Whether an engine trained with another engine's form of the loss, to compare the two at equal losses."""
    backend = usable_class(config["backend"]["name"])
    if backend is None:  # the plug-in is not installed here
        return False
    own = getattr(backend, "loss", None)
    return bool(config["backend"].get("loss", own) != own)


def labels(records: Sequence[Record]) -> list[str]:
    """Give several cells different names: equal labels are extended by the config keys in which their cells differ.

    A key that a cell does not have, such as an option that is newer than its record, is not in its name.
    """
    names = [label(record) for record in records]
    flat = [flatten(record["config"]) for record in records]
    for name in {name for name in names if names.count(name) > 1}:
        same = [index for index, other in enumerate(names) if other == name]
        differing = _differing([flat[index] for index in same])
        for index in same:
            own = [key for key in differing if key in flat[index]]
            added = [f"{key.removeprefix('backend.')}={flat[index][key]}" for key in own]
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


def dataset_name(dataset: Mapping[str, Any]) -> str:
    """Name of the data set in a config's section ``dataset``: a user's tables have one of their own."""
    options = dataset.get("options")
    own = options.get("name") if dataset["name"] == "tables" and isinstance(options, Mapping) else None
    return str(own or dataset["name"])


def different_titles(
    titles: Sequence[str], settings: Sequence[Mapping[str, Any]], identities: Sequence[str]
) -> list[str]:
    """Give the tables of one output different titles: equal ones get ``key=value`` of the settings that differ.

    ``settings`` have dotted keys. Tables that no setting tells apart get their identity.
    """
    words = distinctions(titles, settings)
    extended = [" ".join([title, *added]) for title, added in zip(titles, words, strict=True)]
    return [
        title if extended.count(title) == 1 else f"{title} ({identity})"
        for title, identity in zip(extended, identities, strict=True)
    ]


def distinctions(titles: Sequence[str], settings: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """For each title the ``key=value`` that tell it from the equal ones, with as few keys as that takes."""
    words: list[list[str]] = [[] for _ in titles]
    for title in dict.fromkeys(titles):
        same = [index for index, other in enumerate(titles) if other == title]
        keys = _fewest_keys([settings[index] for index in same]) if len(same) > 1 else ()
        for index in same:
            words[index] = [
                f"{_short(key, keys)}={_text(settings[index][key])}" for key in keys if key in settings[index]
            ]
    return words


def _fewest_keys(settings: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The smallest set of keys, the first ones among equally small, that parts the settings as all keys do."""
    texts = [{key: _text(value) for key, value in values.items()} for values in settings]
    keys = [key for key in dict.fromkeys(key for values in texts for key in values) if _parts(texts, (key,)) > 1]
    most = _parts(texts, keys)
    for size in range(min(3, len(keys)) + 1):
        for chosen in combinations(keys, size):
            if _parts(texts, chosen) == most:
                return chosen
    chosen = ()
    while _parts(texts, chosen) < most:
        best = max(keys, key=lambda key: _parts(texts, (*chosen, key)))
        chosen = (*chosen, best)
    return tuple(key for key in keys if key in chosen)


def _parts(texts: Sequence[Mapping[str, str]], keys: Sequence[str]) -> int:
    """How many different settings there are when only ``keys`` are looked at."""
    return len({tuple(values.get(key) for key in keys) for values in texts})


def _short(key: str, keys: Sequence[str]) -> str:
    """The last part of a dotted key where no other key ends in it; the section of a key ``name``."""
    short = key.removesuffix(".name").rpartition(".")[2]
    alike = [other for other in keys if other.removesuffix(".name").rpartition(".")[2] == short]
    return short if len(alike) == 1 else key


def _text(value: Any) -> str:
    """Write a value without spaces, as an override has it."""
    if isinstance(value, list | tuple):
        return f"[{','.join(_text(item) for item in value)}]"
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
