"""Options of the full-batch engine."""

from dataclasses import dataclass
from typing import Any, ClassVar

from backends.blocksparse.layout import RankLayout
from backends.model_names import MODELS
from backends.parallel.network import NO_NETWORK, ClusterNetwork
from backends.registry import BackendConfig
from backends.settings import loss_setting, setting

DENSITIES = (0.2, 0.35, 0.5)  # around those from which tiles pay: .3 on a GPU, .35 to .6 on a CPU
DENSITY = 0.35
OF_RANKS: dict[str, str | bool] = {"exchange": "halo", "bounds": "edges", "overlap": False}
LEAST_BANDWIDTH, MOST_LATENCY = 1e3, 10.0  # of a link; beyond them an epoch's messages outlast any deadline


@dataclass
class BlocksparseConfig(BackendConfig):
    """Our kernels over whole graphs; ``loss=torch`` compares with the peers at equal losses.

    With ``panels`` a table beyond the cache is multiplied in column panels, where these won a trial in ``prepare``;
    with ``tiles`` squares of 32 x 32 with edges in at least the share ``density_threshold`` of their cells are
    multiplied densely, where that won; with ``auto`` the best of several densities or none, as a trial says. With
    ``capture`` one process records the step of a small graph and repeats its kernels without Python. ``forms`` names
    one of the two to use it wherever it can be, without a trial.
    ``ranks`` processes divide the rows, each block of them held ``replication`` times (1: 1D, more: 1.5D). Before a
    product, whole blocks are broadcast or only the rows that are needed travel (``exchange``). ``bounds`` cuts blocks
    of equally many rows or of about equally many edges. With ``overlap`` own columns multiply while rows travel.
    ``link=[bytes per second, seconds]`` holds messages back as a network of that bandwidth and latency would.
    ``replay`` models the epochs of those numbers of ranks beside one process's, each rank on a machine of its own;
    beside real ranks it models these, on this machine's cores, to compare the model with them.
    """

    name: str = "blocksparse"
    sparse: str = setting("auto", before="true")
    panels: str = setting("auto", before="true")
    tiles: str = setting("auto", before="true")
    density_threshold: int | float | str = setting(DENSITY, before=DENSITY)  # Hydra turns no 1 of a union into 1.0
    forms: str = setting("tried", choices=("tried", "panels", "tiles"), before="tried")
    loss: str = loss_setting("fused")
    capture: bool = setting(True, before=True)
    ranks: int = setting(1, least=1, before=1)
    replication: int = setting(1, least=1, before=1)
    exchange: str = setting("halo", choices=("broadcast", "halo"), before="halo")
    bounds: str = setting("edges", choices=("rows", "edges", "parts"), before="edges")
    overlap: bool = setting(False, before=False)
    link: list[float] = setting(factory=list, before=[])
    replay: list[int] = setting(factory=list, before=[])

    runtimes: ClassVar[dict[str, str]] = {
        "train": "backends.blocksparse.ranks:trainer",
        "infer": "backends.blocksparse.ranks:inferrer",
        "spmm": "backends.blocksparse.backend:BlocksparseMultiplier",
    }
    models: ClassVar[tuple[str, ...]] = MODELS
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")
    dtypes: ClassVar[tuple[str, ...]] = ("float32", "float64")
    kind: ClassVar[str] = "native"
    ablations: ClassVar[dict[str, tuple[str, ...]]] = {
        "sparse": ("sparse",),
        "panels": ("panels",),
        "tiles": ("tiles",),
    }
    base: ClassVar[dict[str, Any]] = {"sparse": "false", "panels": "false", "tiles": "false"}

    def __post_init__(self) -> None:
        """Raise ValueError for a value that is not allowed, and for an option that nothing would read."""
        for name in ("sparse", "panels", "tiles"):
            value = str(getattr(self, name)).lower()
            if value not in ("auto", "true", "false"):
                raise ValueError(f"backend.{name}={value!r} is not allowed: one of auto, true, false")
            setattr(self, name, value)
        self.density_threshold = _density(self.density_threshold)
        self._check_ranks()
        self._check_link()
        self._refuse_unread()

    def _check_ranks(self) -> None:
        for ranks in self.replay or [self.ranks]:
            RankLayout(ranks, self.replication)
        models_itself = self.ranks > 1 and list(self.replay) == [self.ranks]
        if self.replay and not models_itself and (self.ranks > 1 or min(self.replay) < 2):
            raise ValueError(
                f"backend.replay={list(self.replay)} with backend.ranks={self.ranks} is not allowed: give "
                "numbers from 2 on with backend.ranks=1, or [N] with backend.ranks=N to compare model and ranks"
            )

    def _check_link(self) -> None:
        link = list(self.link)
        if link and not (len(link) == 2 and LEAST_BANDWIDTH <= link[0] < float("inf") and 0 <= link[1] <= MOST_LATENCY):
            raise ValueError(
                f"backend.link={link} is not allowed: [bytes per second, seconds], from {LEAST_BANDWIDTH:g} on and "
                f"from 0 to {MOST_LATENCY:g}, or []"
            )

    def _refuse_unread(self) -> None:
        """Raise ValueError for options of ranks where there are none, and of forms that are switched off."""
        for option, default in (OF_RANKS | {"link": []}).items():
            value = getattr(self, option)
            if self.ranks == 1 and not self.replay and value != default:
                raise ValueError(
                    f"backend.{option}={value} is an option of ranks, and backend.ranks=1: give more ranks, numbers of "
                    "them to model (backend.replay), or leave it out"
                )
        for switch in ("panels", "tiles"):
            if getattr(self, switch) == "false" and self.forms == switch:
                raise ValueError(f"backend.forms={switch} is not allowed with backend.{switch}=false: leave out one")
        if self.tiles == "false" and self.density_threshold != DENSITY:
            raise ValueError(
                f"backend.density_threshold={self.density_threshold} is an option of tiles, and backend.tiles=false: "
                "leave out one"
            )

    @property
    def densities(self) -> tuple[float, ...]:
        """The least densities of a tile that there is a choice of: one, or several with ``density_threshold=auto``."""
        return DENSITIES if isinstance(self.density_threshold, str) else (self.density_threshold,)

    @property
    def network(self) -> ClusterNetwork:
        """The network of ``link``, none where that is empty."""
        return ClusterNetwork(*self.link) if self.link else NO_NETWORK

    def layout(self, nodes: int) -> RankLayout:
        """How the ranks divide a graph of so many nodes."""
        return RankLayout(self.ranks, self.replication)

    def for_parity_gate(self) -> "BlocksparseConfig":
        """The same ranks as far as the gate's graphs reach; these have no parts, and no epoch is modelled there."""
        bounds = "edges" if self.bounds == "parts" else self.bounds
        options = vars(self) | {"bounds": bounds, "replay": []}
        if self.ranks == 1:  # they are those of modelled ranks
            options |= OF_RANKS | {"replication": 1, "link": []}
        return BlocksparseGateConfig(**options)

    def unsupported(self, scenario: str, model: str, device: str, full_batch: bool) -> str | None:
        """Also refuse mini batches, which are backend agl's, and ranks where they cannot run."""
        if self.ranks > 1 and (scenario == "spmm" or device != "cpu"):
            return "backend blocksparse trains and infers on several ranks, on the CPU only: set backend.ranks=1"
        if self.replay and (scenario != "train" or device != "cpu"):
            return "backend blocksparse models epochs of training on the CPU only: set backend.replay=[]"
        if self.replication > 1 and model == "gat":
            return (
                "backend blocksparse has gat in 1D only, as a softmax needs all edges of a row: backend.replication=1"
            )
        if scenario == "train" and not full_batch:
            return "backend blocksparse trains full batches only: set training.batch_size=null, or backend=agl"
        if self.forms != "tried" and model == "gat":
            return "backend blocksparse attends neither in panels nor in tiles: set backend.forms=tried"
        if self.forms == "panels" and device != "cpu":
            return "backend blocksparse cuts panels for a processor's caches: set backend.forms=tried, or device=cpu"
        if self.overlap and model == "gat":
            return "backend blocksparse attends to all edges of a row at once: set backend.overlap=false"
        return super().unsupported(scenario, model, device, full_batch)


@dataclass
class BlocksparseGateConfig(BlocksparseConfig):
    """The options on the gate's graphs, which may have fewer nodes than a layout has row blocks."""

    def layout(self, nodes: int) -> RankLayout:
        """The largest layout that fits a graph of so many nodes."""
        return super().layout(nodes).within(nodes)


def _density(value: float | str) -> float | str:
    """A density as a number, or ``auto``; raises ValueError for other words, and for a number out of range."""
    if str(value).lower() == "auto":
        return "auto"
    try:
        density = float(value)
    except ValueError:
        density = 0.0
    if not 0 < density <= 1:
        raise ValueError(f"backend.density_threshold={value} is not allowed: a number above 0, at most 1, or auto")
    return density
