"""Flags of the schema's fields: executed, shared by a group, label, passed to the engine."""

from dataclasses import asdict, dataclass, fields

from backends.model import TrainingSpec
from backends.settings import executed_values, setting, setting_of, settings_in
from harness.planning.schema import RunConfig, TrainingConfig, is_executed, is_label
from harness.store.naming import flatten

KEYS = [*flatten(asdict(RunConfig())), "tracker.mode", "dataset.options.nodes", "backend.pruning", "ablations.base"]


def test_keys_that_are_not_executed() -> None:
    assert {key for key in KEYS if not is_executed(key)} == {
        *("seed", "ablations", "ablations.base", "results", "dry_run", "wait", "retry", "suite", "tier"),
        *("tracker.name", "tracker.mode", "tracker.project"),
        *("launcher.python", "launcher.memory_limit_gib"),
        *("measure.deadline_seconds", "measure.group_seconds", "scenario.save_state"),
    }


def test_the_interpreter_labels_a_row_and_launcher_and_allocator_are_executed() -> None:
    executed, labels = ({key for key in KEYS if flag(key)} for flag in (is_executed, is_label))
    assert labels - executed == {"launcher.python"} and executed - labels == {"launcher.name", "launcher.allocator"}


def test_cells_of_a_group_share_all_but_engine_and_launcher() -> None:
    shared = {field.name for field in fields(RunConfig) if setting_of(field).shared}
    assert shared == {"dataset", "order", "model", "training", "scenario", "measure", "seed", "device", "threads"}


def test_an_engine_gets_the_training_that_it_carries_out() -> None:
    names = {key for key, known, _ in settings_in(TrainingConfig()) if known.for_engine}
    assert names == {field.name for field in fields(TrainingSpec)} - {"threads", "device", "seed"}


@dataclass
class Options:
    """Options of an engine, one of which was added later."""

    old: int = 1
    new: bool = setting(False, before=False)
    place: str = setting("here", executed=False)


def test_a_later_option_is_left_out_where_nothing_changed() -> None:
    assert executed_values(Options()) == {"old": 1}
    assert executed_values(Options(new=True, place="there")) == {"old": 1, "new": True}
