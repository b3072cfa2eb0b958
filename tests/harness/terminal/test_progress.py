"""What a run says while it goes on, where nobody looks at a terminal: a log."""

import pytest

from harness.terminal import progress
from harness.terminal.progress import RunProgress


@pytest.mark.parametrize(("every", "said"), [(-1.0, ["cell 3: start", "cell 3: sample 2, 0.5 s"]), (60.0, [])])
def test_a_log_says_once_a_minute_what_is_done(monkeypatch, capsys, every, said):
    monkeypatch.setattr(progress, "PLAIN_SECONDS", every)
    with RunProgress(7) as show:
        show({"event": "start", "cell": 2})
        show({"event": "sample", "cell": 2, "samples": 2, "seconds": 0.5})
        show({"event": "done", "cell": 2, "status": "ok", "path": "a.json"})
    assert capsys.readouterr().err.splitlines() == [*said, "ok           a.json"]
