"""Virtual time: tasks that take turns in one thread, and timers. The same seed gives the same order, always.

A task is a greenlet. It runs until it parks; then the next timer is due, at once and without waiting. So code that is
written for threads runs here as it is, one step at a time, and a step is what lies between two waits.
"""

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

LEAST_WAIT_S = 1e-6
"""No wait is shorter: what is left of an interval may be a rounding error, waited for in thousands of turns."""
MOST_AT_ONCE = 1_000_000
"""So many steps at one moment are a loop that never ends."""


class Killed(GreenletExit):
    """The process of this task was killed: nothing in it runs on, not even what would tidy up."""


class Process:
    """What dies at once: the tasks of one simulated process. ``clock_ns`` is added to its wall clock.

    ``slept_ns``: how long its machine slept; its monotonic clock stood meanwhile, its wall clock went on.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.frozen = False
        self.clock_ns = 0
        self.slept_ns = 0
        self.asleep_at: float | None = None
        self.tasks: list[Task] = []
        self.waiting: list[Task] = []
        """Tasks whose turn came while the process was frozen."""


class Task:
    """One thread of a process."""

    __slots__ = ("ended", "failure", "glet", "name", "process", "queued", "turn", "woken")

    def __init__(self, process: Process, name: str) -> None:
        self.process = process
        self.name = name
        self.ended = False
        self.failure: BaseException | None = None
        self.glet: Any = None
        self.turn = 0
        self.woken = False
        self.queued = False


class Timer:
    """Something that is due; ``cancel()`` it and it never comes."""

    __slots__ = ("what",)

    def __init__(self, what: Callable[[], object]) -> None:
        self.what: Callable[[], object] | None = what

    def cancel(self) -> None:
        """Let it never come."""
        self.what = None


class Schedule:
    """The order of everything. ``now`` is in s since the world began; ``steps`` counts the turns of tasks."""

    def __init__(self, grain: float = 0.0) -> None:
        self.now = 0.0
        self.grain = grain
        """The coarseness of timers, in s: see ``deadline``."""
        self.steps = 0
        self.most_steps: float = math.inf
        """After so many steps nothing runs any more, too."""
        self.halted = False
        """Nothing runs any more: what has happened is enough for a verdict, and more of it would take for ever."""
        self.current: Task | None = None
        self.on_step: Callable[[Task], None] | None = None
        """Called before each turn of a task: it may kill a process."""
        self._numbers = itertools.count()
        self._timers: list[tuple[float, int, Timer | Task, int]] = []
        self._ready: deque[Task] = deque()
        self._hub: Any = None

    def deadline(self, timeout: float) -> float:
        """Return when a wait of ``timeout`` seconds is over.

        Nothing that waits for a time wakes up between two multiples of ``grain``: so a canary whose interval is a
        minute lives a day in as many steps as one whose interval is a second lives half an hour.
        """
        due = self.now + (max(timeout, LEAST_WAIT_S) if timeout > 0 else 0.0)
        grain = self.grain
        return due if not grain or timeout <= 0 else math.ceil(due / grain - 1e-9) * grain

    def at(self, when: float, what: Callable[[], object]) -> Timer:
        """Call ``what`` at the virtual second ``when``, in no task: it must not wait."""
        timer = Timer(what)
        heapq.heappush(self._timers, (max(when, self.now), next(self._numbers), timer, 0))
        return timer

    def after(self, delay: float, what: Callable[[], object]) -> Timer:
        """Call ``what`` in ``delay`` seconds."""
        return self.at(self.now + delay, what)

    def spawn(self, process: Process, run: Callable[[], object], name: str) -> Task:
        """Begin a task; its first turn comes after those that are ready."""
        task = Task(process, name)

        def main() -> None:
            try:
                if not process.dead:
                    run()
            except GreenletExit:
                pass  # its process was killed, which ends it and is no failure
            except Exception as error:  # noqa: BLE001  # kept for whoever looks at the task
                task.failure = error
            finally:
                task.ended = True

        task.glet = greenlet(main, parent=self._hub)
        process.tasks = [one for one in process.tasks if not one.ended]
        process.tasks.append(task)
        self._queue(task)
        return task

    def running(self) -> Task:
        """Return the task whose turn it is.

        Raises:
            RuntimeError: no task runs, and only a task can wait.
        """
        if self.current is None:
            raise RuntimeError("only a task can wait, and none runs")
        return self.current

    def park(self, until: float | None = None) -> bool:
        """Let others run until ``until`` (s; None: until woken). Returns whether the task was woken before."""
        task = self.running()
        if task.process.dead:
            raise Killed
        task.turn += 1
        task.woken = False
        if until is not None:
            heapq.heappush(self._timers, (max(until, self.now), next(self._numbers), task, task.turn))
        self._hub.switch()
        if task.process.dead:
            raise Killed
        return task.woken

    def wake(self, task: Task) -> None:
        """Let a parked task go on; nothing if it is not parked any more."""
        if not task.woken and not task.ended:
            task.woken = True
            task.turn += 1  # its timer is out of date
            self._queue(task)

    def _queue(self, task: Task) -> None:
        if not task.queued:
            task.queued = True
            self._ready.append(task)

    def run(self, until: float) -> None:
        """Let the world live until the virtual second ``until``."""
        self._hub = getcurrent()
        before, steps = self.now, 0
        while not self.halted:
            while self._ready and not self.halted:
                self._turn(self._ready.popleft())
                steps += 1
            steps += 1
            if self.now != before:
                before, steps = self.now, 0
            if steps >= MOST_AT_ONCE:
                raise RuntimeError(f"time stands still at {self.now} s")
            if not self._timers or self._timers[0][0] > until:
                self.now = max(self.now, until)
                return
            when, _, what, turn = heapq.heappop(self._timers)
            if isinstance(what, Task):
                if what.turn == turn and not what.ended:
                    self.now = when
                    self._queue(what)
            elif what.what is not None:
                self.now = when
                what.what()

    def _turn(self, task: Task) -> None:
        task.queued = False
        process = task.process
        if task.ended:
            return
        if process.frozen and not process.dead:
            process.waiting.append(task)
            return
        if self.on_step is not None and not process.dead:
            self.on_step(task)
        self.steps += 1
        self.halted |= self.steps > self.most_steps
        before, self.current = self.current, task
        task.glet.parent = self._hub
        task.glet.switch()
        self.current = before

    def freeze(self, process: Process, *, asleep: bool = False) -> None:
        """Stop a process like SIGSTOP does, or with its machine: then its monotonic clock stands, too."""
        process.frozen = True
        if asleep and process.asleep_at is None:
            process.asleep_at = self.now

    def resume(self, process: Process) -> None:
        """Let a frozen process go on."""
        if process.asleep_at is not None:
            process.slept_ns += round((self.now - process.asleep_at) * 1e9)
            process.asleep_at = None
        process.frozen = False
        waiting, process.waiting = process.waiting, []
        for task in waiting:
            self._queue(task)

    def kill(self, process: Process) -> None:
        """End every task of a process where it stands, like SIGKILL: each raises Killed at its next turn."""
        process.dead = True
        process.frozen = False
        for task in process.tasks:
            if not task.ended and task is not self.current:
                task.turn += 1
                task.woken = True
                self._queue(task)
