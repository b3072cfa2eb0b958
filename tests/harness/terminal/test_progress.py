"""Progress of a run whose output is a log instead of a terminal."""

import pytest

from harness.terminal import quiet_progress
from harness.terminal.progress import RunProgress


@pytest.mark.parametrize(("every", "lines"), [(-1.0, ["cell 3: start", "cell 3: sample 2, 0.5 s"]), (60.0, [])])
def test_a_log_gets_a_line_a_minute(monkeypatch, capsys, every, lines):
    monkeypatch.setattr(quiet_progress, "PLAIN_SECONDS", every)
    with RunProgress(7) as show:
        show({"event": "start", "cell": 2})
        show({"event": "sample", "cell": 2, "samples": 2, "seconds": 0.5})
        show({"event": "done", "cell": 2, "status": "ok", "path": "a.json"})
    assert capsys.readouterr().err.splitlines() == [*lines, "ok           a.json"]
