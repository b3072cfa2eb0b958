"""The least time of a call: repeated until no faster one is found."""

import time
from collections.abc import Callable, Iterable

REPEATS = 5
PATIENCE = 10  # calls in a row that are not faster by a hundredth end the search
STABLE = 0.99
LONGEST = 1.0  # seconds
WITH_BEFORE = 10  # times the seconds asked for: a call may be short beside what precedes it
QUEUED = 20  # calls that a device is given at once


def best_of(
    call: Callable[[], object],
    repeats: int = REPEATS,
    seconds: float = 0.0,
    before: Callable[[], object] = lambda: None,
) -> float:
    """Least seconds of several calls after one that does not count, because a ceiling is the best speed reached.

    Calls are repeated beyond ``repeats`` until they took ``seconds`` together, or ten times as long with ``before``,
    which precedes each, not counted.
    """
    call()
    durations: list[float] = []
    end = time.perf_counter() + WITH_BEFORE * seconds
    while len(durations) < repeats or (sum(durations) < seconds and time.perf_counter() < end):
        durations.append(_seconds(call, before))
    return min(durations)


def stable_best(calls: Iterable[Callable[[], object]]) -> float:
    """Least seconds of the fastest of several forms of one computation, each repeated until it gets no faster.

    A form that takes twice the time of the best so far is not repeated. Each form runs once without being counted.
    """
    return _least_of(calls, lambda call: _seconds(call, lambda: None))


def queued_best(calls: Iterable[Callable[[], object]], synchronize: Callable[[], object]) -> float:
    """Least seconds, like ``stable_best``, of calls that only start work on a device.

    Several are started and waited for: starting one costs nothing while the device works on the one before.
    """

    def seconds(call: Callable[[], object]) -> float:
        def queue() -> None:
            for _ in range(QUEUED):
                call()
            synchronize()

        return _seconds(queue, synchronize) / QUEUED

    return _least_of(calls, seconds)


def _least_of(calls: Iterable[Callable[[], object]], seconds: Callable[[Callable[[], object]], float]) -> float:
    best = float("inf")
    for call in calls:
        call()
        fastest, since, end = float("inf"), 0, time.perf_counter() + LONGEST
        while since < PATIENCE and time.perf_counter() < end:
            duration = seconds(call)
            since = 0 if duration < STABLE * fastest else since + 1
            fastest = min(fastest, duration)
            if fastest > 2 * best:
                break
        best = min(best, fastest)
    return best


def _seconds(call: Callable[[], object], before: Callable[[], object]) -> float:
    before()
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
