"""Run tasks on a Dask client, one per sample, and hand back outcomes as they come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any
from uuid import uuid4

from chiasma.cohort.clusters import SchedulerLost, distributed
from chiasma.cohort.directory import CohortDirectory
from chiasma.cohort.outcome import FAILED, Outcome
from chiasma.cohort.task import Task, compile_kernels, run_task

Note = Callable[[str], None]


def run_on(
    client: Any, tasks: Sequence[Task], retries: int, note: Note, begun: Callable[[], None] = lambda: None
) -> Iterator[Outcome]:
    """Outcomes in the order in which samples end.

    Dask starts a sample again when its worker is lost, until it suspects the sample itself; it is then submitted again
    `retries` times. Only small outcomes come back: draws stay on the workers' disk. begun : is called once kernels are
    compiled and the samples begin.
    """
    dask = distributed()
    if not client.scheduler_info()["workers"]:
        note("there are no workers yet; waiting for the first one")
    # A key that was never used before: a scheduler that runs for weeks remembers results by their keys.
    run = uuid4().hex
    lost: Counter[str] = Counter()
    by_key: dict[str, Task] = {}

    def submit(task: Task) -> Any:
        key = f"sample-{task.name}-{lost[task.name]}-{run}"
        by_key[key] = task
        return client.submit(run_task, task, key=key, retries=retries, pure=False)

    pending: set[Any] = set()
    try:
        client.submit(compile_kernels, tasks[0], key=f"compile-{run}", pure=False).result()
        begun()
        pending = {submit(task) for task in tasks}
        ended = dask.as_completed(pending, loop=client.loop)
        for future in ended:
            pending.discard(future)
            task = by_key.pop(future.key)
            try:
                outcome: Outcome = future.result()
            except dask.KilledWorker as error:
                lost[task.name] += 1
                if lost[task.name] <= retries:
                    again = submit(task)
                    pending.add(again)
                    ended.add(again)
                    continue
                outcome = _lost(task, lost[task.name] * (error.allowed_failures + 1))
            yield outcome
    except (CancelledError, OSError) as error:
        pending = set()
        raise SchedulerLost(f"the scheduler was lost ({error})") from error
    finally:
        # What runs already goes on to its end, and is then done; the rest is taken back.
        if pending:
            client.cancel(list(pending))


def _lost(task: Task, times: int) -> Outcome:
    told = (
        f"its worker was lost {times} times while it ran; if workers ran out of memory, start fewer or give each more, "
        "then resume"
    )
    return CohortDirectory(task.cohort).fail(Outcome(name=task.name, status=FAILED, seed=task.seed, error=told))
