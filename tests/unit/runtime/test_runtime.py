import gc
import socket
import subprocess
import sys
import time

import gevent
import gevent.monkey
import gevent.socket
import pytest

from tests.support.sockets import refusing_port
from zkbroker.errors import ConfigError
from zkbroker.runtime import QueueEmpty, QueueFull, get_runtime
from zkbroker.runtime.greenlets import _Expired


def test_unknown_runtime_is_refused():
    with pytest.raises(ConfigError, match="threads or gevent"):
        get_runtime("asyncio")


def test_runtime_object_is_returned_unchanged(runtime):
    assert get_runtime(runtime) is runtime


def test_tasks_run_and_are_joined(runtime):
    seen = []
    task = runtime.spawn(seen.append, 1, name="t")
    assert task.join(5)
    assert seen == [1]
    assert not task.alive


def test_join_of_the_current_task_returns_false(runtime):
    found = runtime.queue(1)
    holder = runtime.queue(1)
    task = runtime.spawn(lambda: found.put(holder.get(5).join(5)), name="t")
    holder.put(task)
    assert found.get(5) is False
    assert task.join(5)


def test_guard_excludes_other_native_threads(runtime):
    guard = runtime.guard()
    entered = []

    def enter():
        with guard:
            entered.append(True)

    # The native one, whatever is patched: gevent's own objects cannot wait between threads.
    start = gevent.monkey.get_original("_thread", "start_new_thread")
    with guard:
        start(enter, ())
        runtime.sleep(0.01)
        assert entered == []
    while not entered:
        runtime.sleep(0.001)


def test_sleep_0_lets_a_greenlet_with_a_ready_socket_run():
    """The operating system does that for threads."""
    runtime = get_runtime("gevent")
    ours, theirs = socket.socketpair()
    seen = []

    def receive():
        gevent.socket.wait_read(ours.fileno())
        seen.append(ours.recv(10))

    with ours, theirs:
        task = runtime.spawn(receive, name="reader")
        runtime.sleep(0)
        theirs.send(b"x")
        for _ in range(3):
            runtime.sleep(0)
        in_time = list(seen)
        assert task.join(5)
    assert in_time == [b"x"]


def test_join_times_out(runtime):
    stop = runtime.event()
    task = runtime.spawn(stop.wait, name="t")
    assert not task.join(0.01)
    assert task.alive
    stop.set()
    assert task.join(5)


def test_exception_in_a_task_is_logged_with_its_name(runtime, caplog):
    task = runtime.spawn(lambda: 1 / 0, name="doomed")
    assert task.join(5)
    assert "task failed name=doomed" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_events_wake_waiting_tasks(runtime):
    event = runtime.event()
    assert not event.wait(0)
    runtime.spawn(event.set, name="t")
    assert event.wait(5)
    assert event.is_set()
    event.clear()
    assert not event.is_set()


def test_timeout_ends_only_its_own_wait(runtime):
    event, results = runtime.event(), {}

    def wait(name, timeout_s):
        results[name] = event.wait(timeout_s)

    tasks = [
        runtime.spawn(wait, name, timeout_s, name=name)
        for name, timeout_s in (("short", 0.02), ("long", 60), ("endless", None))
    ]
    assert tasks[0].join(30)
    assert results == {"short": False}
    event.set()
    assert all(task.join(30) for task in tasks)
    assert results == {"short": False, "long": True, "endless": True}
    assert event.wait(60)


def test_timeout_counts_from_the_start_of_the_wait(runtime):
    runtime.sleep(0.01)
    time.sleep(0.3)  # as a task that works, which gives no turn to others
    event = runtime.event()
    started = time.monotonic()
    assert not event.wait(0.2)
    assert time.monotonic() - started >= 0.15


def test_timed_out_wait_leaves_no_reference_cycle():
    event = get_runtime("gevent").event()
    gc.disable()
    try:
        assert not any(event.wait(0.01) for _ in range(3))
        # The timer of the last one holds its own.
        assert sum(type(each) is _Expired for each in gc.get_objects()) <= 1
    finally:
        gc.enable()


def test_event_set_by_a_native_thread_wakes_the_wait(runtime):
    event = runtime.event()
    start = gevent.monkey.get_original("_thread", "start_new_thread")
    start(event.set, ())
    assert event.wait(60)


def test_kill_of_a_waiting_greenlet_is_raised():
    runtime, ended = get_runtime("gevent"), []

    def wait():
        try:
            runtime.event().wait(60)
        except gevent.GreenletExit as error:
            ended.append(error)

    greenlet = gevent.spawn(wait)
    gevent.sleep(0)
    greenlet.kill(timeout=30)
    assert len(ended) == 1


def test_queues_are_bounded_and_in_order(runtime):
    queue = runtime.queue(2)
    queue.put(1)
    queue.put(2)
    with pytest.raises(QueueFull):
        queue.put(3, 0)
    with pytest.raises(QueueFull):
        queue.put(3, 0.01)
    assert queue.qsize() == 2
    assert [queue.get(), queue.get()] == [1, 2]
    with pytest.raises(QueueEmpty):
        queue.get(0)
    with pytest.raises(QueueEmpty):
        queue.get(0.01)


def test_locks_are_reentrant(runtime):
    lock = runtime.lock()
    with lock, lock:
        pass


def test_offload_returns_the_result_and_raises_the_error(runtime):
    assert runtime.offload(sum, [1, 2]) == 3
    with pytest.raises(ZeroDivisionError):
        runtime.offload(lambda: 1 / 0)


def test_connect_opens_a_connection_without_delay(runtime):
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = runtime.connect("127.0.0.1", server.getsockname()[1], 5)
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        connection.close()


def test_connect_to_a_closed_port_raises(runtime):
    with refusing_port() as port, pytest.raises(OSError):
        runtime.connect("127.0.0.1", port, 5)


def test_importing_the_library_patches_nothing_and_loads_no_gevent():
    code = (
        "import socket, threading; before = (socket.socket, threading.Thread)\n"
        "import sys, zkbroker.runtime; zkbroker.runtime.get_runtime('threads')\n"
        "assert before == (socket.socket, threading.Thread)\n"
        "assert 'gevent' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
