"""``python -m harness sync``: replays records to W&B."""

import argparse
import sys
from pathlib import Path

from harness.planning.schema import TrackerConfig
from harness.store.files import find_records
from harness.store.left_out import LeftOut
from harness.track import start


def main(argv: list[str]) -> int:
    """Send every record; 1 at the first that W&B refuses or when damaged ones were left out, 2 when there are none."""
    parser = argparse.ArgumentParser("python -m harness sync", description="Replay records to Weights & Biases.")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of the records")
    parser.add_argument("--project", default=TrackerConfig().project, help="W&B project")
    parser.add_argument("--mode", choices=("online", "offline"), default="online", help="offline writes to wandb/ here")
    parser.add_argument("--folder", type=Path, default=Path(), help="where W&B keeps its files")
    options = parser.parse_args(argv)
    left_out = LeftOut()
    records = [record for _, record in find_records(options.results, left_out)]
    if not records:
        print(f"error: {options.results} holds no records: run python -m harness first", file=sys.stderr)
        return 2
    tracker = start(TrackerConfig(name="wandb", mode=options.mode, project=options.project), options.folder)
    for count, record in enumerate(records):
        tracker.record(record)
        if tracker.failed:
            print(f"error: stopped after {count} of {len(records)} records: is `wandb login` done?", file=sys.stderr)
            return 1
    print(f"{len(records)} records replayed to the W&B project {options.project} ({options.mode})")
    return left_out.exit_code()
