"""``python -m harness list [KIND ...]``: prints the engines, data sets, suites, ... here and whether they can run."""

import argparse
import sys
from collections.abc import Callable, Iterable
from datetime import datetime

from backends.registry import backend_names, config_class
from datasets import cache
from datasets.order import order_function, order_names
from datasets.paths import default_cache
from datasets.plugins import KINDS as PLUGIN_KINDS
from datasets.plugins import Plugin, PluginError, conf_folder, conf_folders, plugins
from datasets.registry import available, dataset_names, entry_of
from harness.planning.compose import CONF
from harness.usage import formatted_bytes, unknown

Line = tuple[str, str]


def main(arguments: list[str]) -> int:
    """Print the named kinds, or all of them; 2 for an unknown kind."""
    parser = argparse.ArgumentParser(prog="python -m harness list", description="Print what exists here.")
    parser.add_argument("kind", nargs="*", metavar="KIND", help=f"any of {', '.join(KINDS)}")
    kinds = parser.parse_args(arguments).kind or list(KINDS)
    for kind in kinds:
        if kind not in KINDS:
            print(f"error: {unknown('kind', kind, KINDS)}", file=sys.stderr)
            return 2
    for kind in kinds:
        lines = list(KINDS[kind]())
        width = max((len(name) for name, _ in lines), default=0)
        print(f"{kind}:")
        for name, description in lines:
            print(f"  {name:<{width}}  {description}".rstrip())
    return 0


def describe_all(names: Iterable[str], describe: Callable[[str], str]) -> list[Line]:
    """Describe each name; a plug-in that cannot be imported is described by its error."""
    lines = []
    for name in names:
        try:
            lines.append((name, describe(name)))
        except PluginError as error:
            lines.append((name, f"broken: {error}"))
    return lines


def backends() -> list[Line]:
    """Name every backend with its scenarios, models, devices and ablations, and a package that it lacks."""
    return describe_all(backend_names(), _backend)


def _backend(name: str) -> str:
    kind = config_class(name)
    missing = kind().missing()
    abilities = f"{', '.join(kind.runtimes)}; {', '.join(kind.models)}; {', '.join(kind.devices)}"
    ablations = f"; ablations {', '.join([*kind.ablations, 'base'])}" if kind.ablations else ""
    return f"{'not installed: ' + missing if missing else 'installed'}; {abilities}{ablations}"


def data_sets() -> list[Line]:
    """Name every data set with its title and whether it is at hand."""
    return describe_all(dataset_names(), lambda name: f"{entry_of(name).title}; {available(name)[1]}")


def orders() -> list[Line]:
    """Name every order."""
    return describe_all(order_names(), _order)


def _order(name: str) -> str:
    return (order_function(name).__doc__ or "").strip().partition("\n")[0]


def files(group: str) -> Callable[[], list[Line]]:
    """Return a function that names the files of a configuration group with their first comment."""

    def lines() -> list[Line]:
        paths = [path for folder in (CONF, *conf_folders()) for path in (folder / group).glob("*.yaml")]
        ordered = sorted(paths, key=lambda path: path.stem)
        return [(path.stem, _comment(path.read_text(encoding="utf-8"))) for path in ordered]

    return lines


def _comment(text: str) -> str:
    comments = [line[1:].strip() for line in text.splitlines() if line.startswith("#")]
    return next((comment for comment in comments if not comment.startswith("@package")), "")


def plugin_targets() -> list[Line]:
    """Name every plug-in with its kind, its target and its package, or with the error of a broken one."""
    return [(f"{kind} {plugin.name}", _plugin(plugin)) for kind in PLUGIN_KINDS for plugin in plugins(kind).values()]


def _plugin(plugin: Plugin) -> str:
    try:
        _ = conf_folder(plugin) if plugin.kind == "configs" else plugin.load()
    except PluginError as error:
        return f"broken: {error}"
    return str(plugin)


def cached() -> list[Line]:
    """Name every prepared graph with its order, size and last use, the downloads, the total and its bound."""
    folder = default_cache()
    prepared = cache.entries(folder)
    lines = [(f"{entry.dataset} {entry.order}", _entry(entry)) for entry in prepared]
    lines += [(f"{entry.dataset} (download)", _entry(entry)) for entry in cache.downloads(folder)]
    try:
        bound = f"of at most {formatted_bytes(cache.limit(folder))}"
    except ValueError as error:
        bound = str(error)
    total = sum(entry.size for entry in prepared)
    return [*lines, ("total", f"{formatted_bytes(total)} prepared, {bound}, in {folder}")]


def _entry(entry: cache.CacheEntry) -> str:
    used = datetime.fromtimestamp(entry.used).strftime("%Y-%m-%d %H:%M")
    state = ", half written" if entry.half_written else ", in use" if cache.in_use(entry) else ""
    return f"{formatted_bytes(entry.size):>10}  last used {used}{state}"


KINDS: dict[str, Callable[[], list[Line]]] = {
    "backends": backends,
    "datasets": data_sets,
    "orders": orders,
    "models": files("model"),
    "scenarios": files("scenario"),
    "ablations": files("ablation"),
    "suites": files("suite"),
    "recipes": files("recipe"),
    "plugins": plugin_targets,
    "cache": cached,
}
