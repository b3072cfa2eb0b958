"""Registry of the backends: their names and config classes, found without importing any engine."""

import importlib
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar

from backends.model_names import PROPAGATIONS
from datasets.plugins import Plugin, PluginError, with_plugins

MODULES = {
    "reference": "backends.reference.config:ReferenceConfig",
    "pyg": "backends.pyg.config:PygConfig",
    "dgl": "backends.dgl.config:DglConfig",
    "agl": "backends.agl.config:AglConfig",
    "blocksparse": "backends.blocksparse.config:BlocksparseConfig",
    "distpart": "backends.distpart.config:DistpartConfig",
    "partitioners": "backends.partitioners.config:PartitionersConfig",
    "dummy": "backends.dummy.config:DummyConfig",
}


@dataclass
class BackendConfig:
    """Options of a backend; the class variables are what the harness must know before it starts the engine.

    ``kind`` is ``native`` for our engines, ``peer`` for those that we measure against, ``test`` for none of them. A
    switch is a field of the values ``auto``, ``true`` or ``false``; ``ablations`` maps an ablation's name to the
    switches it keeps on. ``base`` gives the baseline's value of every switch and of other options. ``draws`` are the
    scenarios in which the engine can compute on the edges that the definition draws for ``model.fanouts``; in other
    scenarios the parity gate checks it with all neighbours, training with fanouts that leave out no edge.
    ``draws_in_epochs``: whether its epochs train on them too, not its single steps alone. ``dtypes``
    are the types that the engine computes in. ``predictions`` names functions that turn measured records into rows of a
    report, and into rows that a model predicts from them.
    """

    name: str = "???"

    runtimes: ClassVar[dict[str, str]] = {}
    models: ClassVar[tuple[str, ...]] = ()
    devices: ClassVar[tuple[str, ...]] = ("cpu",)
    dtypes: ClassVar[tuple[str, ...]] = ("float32",)
    packages: ClassVar[tuple[str, ...]] = ()
    wheels: ClassVar[str] = ""  # what else to know before they are installed
    kind: ClassVar[str] = "peer"
    draws: ClassVar[tuple[str, ...]] = ()
    draws_in_epochs: ClassVar[bool] = True
    ablations: ClassVar[dict[str, tuple[str, ...]]] = {}
    base: ClassVar[dict[str, Any]] = {}
    predictions: ClassVar[dict[str, str]] = {}

    def unsupported(self, scenario: str, model: str, device: str, full_batch: bool) -> str | None:
        """Say in one sentence why this engine cannot run a cell, or ``None``."""
        kind = device.split(":")[0]
        for field, name, allowed in (
            ("scenario", scenario, tuple(self.runtimes)),
            ("model", model, self.models),
            ("device", kind, self.devices),
        ):
            if name not in allowed:
                return f"backend {self.name} has no {field} {name!r}: allowed are {', '.join(allowed)}"
        layerwise = getattr(self, "infer", "full") == "layerwise"
        if model in PROPAGATIONS and (scenario not in ("train", "infer") or not full_batch or layerwise):
            return f"model {model} trains and infers over whole graphs: set training.batch_size=null, or model=gcn"
        if scenario != "train" and not self.has_own_loss:
            own = getattr(type(self), "loss", None)
            return f"backend.loss belongs to scenario train, {scenario} has no loss: set backend.loss={own}"
        return None

    @property
    def has_own_loss(self) -> bool:
        """Whether the training loss is the engine's own, not one lent for a comparison at equal losses."""
        own = getattr(type(self), "loss", None)
        return getattr(self, "loss", own) == own

    def unsupported_type(self, dtype: str) -> str | None:
        """Say in one sentence that this engine does not compute in a type, or ``None``."""
        if dtype in self.dtypes:
            return None
        allowed = ", ".join(self.dtypes)
        return f"backend {self.name} does not compute in {dtype}: set training.dtype to one of {allowed}"

    def missing(self, full_batch: bool = True) -> str | None:
        """Name the missing package that full batches, or mini batches, need, in one sentence; or ``None``."""
        for package in self.packages:
            try:
                version(package)
            except PackageNotFoundError:
                return f"backend {self.name} needs the package {package}: pip install -e '.[{self.name}]'{self.wheels}"
        return None

    def packages_used(self, scenario: str, full_batch: bool) -> tuple[str, ...]:
        """Packages whose work is measured under these options; one that is not installed does none."""
        return self.packages

    def unsupported_here(self, scenario: str, full_batch: bool) -> str | None:
        """Say why this engine cannot run a cell with the packages of this interpreter, in one sentence; or ``None``."""
        return None

    def for_parity_gate(self) -> "BackendConfig":
        """Return the options with which the parity gate runs the engine: sampling as the definition does."""
        return self

    @property
    def takes_planned_batches(self) -> bool:
        """Whether the batches of an epoch are those of the plan; else the engine composes them of the same targets."""
        return True

    @property
    def steps_together(self) -> bool:
        """Whether all workers of the engine take each step together, so that epochs repeat."""
        return True

    def seed_of_epoch(self, seed: int, epoch: int) -> int:
        """The seed of the edges that an epoch draws, where the engine draws the definition's: the same ones in each."""
        return seed

    def on(self, switch: str) -> bool:
        """Whether a resolved switch is on."""
        value = getattr(self, switch)
        if value not in ("true", "false"):
            raise ValueError(f"switch {switch} of backend {self.name} is {value!r}: resolve the ablations first")
        return bool(value == "true")


def load_object(path: str) -> Any:
    """Import ``"package.module:Name"``."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def backend_names() -> tuple[str, ...]:
    """Names of all backends: ours, then those of plug-ins; raises PluginError where two have the same."""
    return tuple(with_plugins("backends", MODULES))


def config_class(name: str) -> type[BackendConfig]:
    """Return the config class of a backend; raises KeyError for an unknown name, PluginError for a broken plug-in."""
    known = with_plugins("backends", MODULES)
    if name not in known:
        raise KeyError(f"backend {name!r} is unknown: allowed are {', '.join(known)}")
    target = known[name]
    if isinstance(target, Plugin):
        return _plugin_class(target)
    loaded: type[BackendConfig] = load_object(target)
    return loaded


def usable_class(name: str) -> type[BackendConfig] | None:
    """Return the config class of a backend, ``None`` for one that is not installed here or cannot be imported."""
    try:
        return config_class(name)
    except (KeyError, PluginError):
        return None


def _plugin_class(plugin: Plugin) -> type[BackendConfig]:
    loaded = plugin.load()
    if not (isinstance(loaded, type) and issubclass(loaded, BackendConfig)):
        raise plugin.error("is no subclass of backends.registry.BackendConfig")
    if loaded.name != plugin.name:
        raise plugin.error(f"is named {loaded.name!r} by its own field: write name: str = {plugin.name!r}")
    return loaded


def runtime(config: BackendConfig, scenario: str) -> Any:
    """Import an engine and build its object for a scenario."""
    return load_object(config.runtimes[scenario])(config)
