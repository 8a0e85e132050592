"""A virtual clock, and processes whose tasks run on it one at a time.

Every event is an entry (time, number, process, function) of one heap, and runs in this order. Tasks
are greenlets that switch only when they wait, so that the seed alone decides a run. The events of a
frozen process wait until it is resumed; those of a dead process never run.
"""

import heapq
import itertools
from collections.abc import Callable
from typing import Any

import greenlet


class Process:
    """A group of tasks that are frozen, resumed and killed together."""

    __slots__ = ("backlog", "dead", "frozen", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.frozen = False
        self.dead = False
        self.backlog: list[Callable[[], object]] = []


class Clock:
    """The virtual time and the heap of future events."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Process | None, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._hub = greenlet.getcurrent()
        self._tasks: dict[Any, None] = {}

    def at(self, when: float, process: Process | None, act: Callable[[], object]) -> None:
        heapq.heappush(self._heap, (when, next(self._numbers), process, act))

    def run(self, until: float, done: Callable[[], bool] | None = None) -> bool:
        """Run all events until a time; return whether `done` became true by then."""
        if done is not None and done():
            return True
        heap = self._heap
        while heap and heap[0][0] <= until:
            when, _, process, act = heapq.heappop(heap)
            self.now = when
            if process is not None:
                if process.dead:
                    continue
                if process.frozen:
                    process.backlog.append(act)
                    continue
            act()
            if done is not None and done():
                return True
        self.now = until
        return done is not None and done()

    def freeze(self, process: Process) -> None:
        process.frozen = True

    def resume(self, process: Process) -> None:
        process.frozen = False
        backlog, process.backlog = process.backlog, []
        for act in backlog:
            self.at(self.now, process, act)

    def switch_to_hub(self) -> None:
        self._hub.switch()

    def spawn(self, process: Process, function: Callable[..., object], *args: Any) -> "SimTask":
        task = SimTask(self, process)

        def body() -> None:
            try:
                task.run(function, args)
            finally:
                self._tasks.pop(task.greenlet, None)

        task.greenlet = greenlet.greenlet(body, parent=self._hub)
        self._tasks[task.greenlet] = None
        self.at(self.now, process, task.greenlet.switch)
        return task

    def close(self) -> None:
        """End all waiting tasks; the garbage collector could not end them safely."""
        self._heap.clear()
        for _ in range(3):
            for waiting in list(self._tasks):
                waiting.throw(greenlet.GreenletExit)
        self._heap.clear()

    def sleep(self, process: Process, seconds: float) -> None:
        self.at(self.now + seconds, process, greenlet.getcurrent().switch)
        self._hub.switch()


class SimEvent:
    """`runtime.Event` on the virtual clock."""

    __slots__ = ("_clock", "_flag", "_process", "_waiters")

    def __init__(self, clock: Clock, process: Process) -> None:
        self._clock = clock
        self._process = process
        self._flag = False
        self._waiters: list[list[Any]] = []

    def set(self) -> None:
        self._flag = True
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            self._clock.at(self._clock.now, self._process, lambda w=waiter: self._wake(w))

    def clear(self) -> None:
        self._flag = False

    def is_set(self) -> bool:
        return self._flag

    @staticmethod
    def _wake(waiter: list[Any]) -> None:
        waiting, waiter[0] = waiter[0], None
        if waiting is not None:
            waiting.switch()

    def wait(self, timeout_s: float | None = None) -> bool:
        if self._flag or timeout_s == 0:
            return self._flag
        waiter = [greenlet.getcurrent()]
        self._waiters.append(waiter)
        if timeout_s is not None:
            self._clock.at(self._clock.now + timeout_s, self._process, lambda: self._wake(waiter))
        self._clock.switch_to_hub()
        if waiter in self._waiters:
            self._waiters.remove(waiter)
        return self._flag


class SimTask:
    """`runtime.Task` on the virtual clock."""

    def __init__(self, clock: Clock, process: Process) -> None:
        self._ended = SimEvent(clock, process)
        self.greenlet: Any = None

    def run(self, function: Callable[..., object], args: tuple[Any, ...]) -> None:
        function(*args)
        self._ended.set()

    def join(self, timeout_s: float | None = None) -> bool:
        return self._ended.wait(timeout_s)

    @property
    def alive(self) -> bool:
        return not self._ended.is_set()


class SimLock:
    """`runtime.Lock` on the virtual clock: a reentrant lock."""

    __slots__ = ("_clock", "_owner", "_process", "_waiting", "depth")

    def __init__(self, clock: Clock, process: Process) -> None:
        self._clock = clock
        self._process = process
        self._owner: Any = None
        self.depth = 0
        self._waiting: list[Any] = []

    def __enter__(self) -> "SimLock":
        me = greenlet.getcurrent()
        while self._owner is not None and self._owner is not me:
            self._waiting.append(me)
            self._clock.switch_to_hub()
        self._owner = me
        self.depth += 1
        return self

    def __exit__(self, *error: object) -> None:
        self.depth -= 1
        if not self.depth:
            self._owner = None
            if self._waiting:
                self._clock.at(self._clock.now, self._process, self._waiting.pop(0).switch)


class SimRuntime:
    """`Runtime` of one process on the virtual clock, without sockets and queues."""

    name = "simulated"

    def __init__(self, clock: Clock, process: Process) -> None:
        self.clock = clock
        self.process = process
        self.rate, self.start_s = 1.0, 0.0
        """The rate of the process's clock, and its time at the start."""

    def clock_ms(self) -> int:
        return int((self.start_s + self.clock.now * self.rate) * 1000)

    now_ms = clock_ms

    def spawn(self, function: Callable[..., object], *args: Any, name: str) -> SimTask:
        return self.clock.spawn(self.process, function, *args)

    def sleep(self, seconds: float) -> None:
        self.clock.sleep(self.process, seconds)

    def event(self) -> SimEvent:
        return SimEvent(self.clock, self.process)

    def lock(self) -> SimLock:
        return SimLock(self.clock, self.process)

    def guard(self) -> SimLock:
        return SimLock(self.clock, self.process)

    def offload(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)
