import gevent

from zkbroker.network.server.request_memory import RequestMemory

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"


def charging(memory, account, size):
    task = gevent.spawn(memory.charge, account, size)
    gevent.sleep(0)
    return task


def test_request_within_the_limit_does_not_wait():
    memory = RequestMemory(1000)
    first, second = memory.open(A), memory.open(B)
    assert memory.charge(first, 400) is False
    assert memory.charge(second, 400) is False
    assert memory.held == 800
    assert not memory.short


def test_only_the_oldest_request_continues_over_the_limit():
    memory = RequestMemory(1000)
    accounts = [memory.open(address) for address in (A, B, C)]
    tasks = [charging(memory, account, 450) for account in accounts]
    assert [task.ready() for task in tasks] == [True, True, False]
    assert charging(memory, accounts[0], 900).ready()  # one request is always finished
    assert memory.short
    memory.complete(accounts[0])
    second = charging(memory, accounts[1], 10)
    assert second.ready()  # now this is the oldest one
    assert not tasks[2].ready()
    memory.close(accounts[0])
    gevent.sleep(0)
    assert tasks[2].value is True
    assert not memory.short


def test_one_address_holds_at_most_half_of_the_memory():
    memory = RequestMemory(1000)
    many = [memory.open(A) for _ in range(30)]
    held_up = [charging(memory, account, 100) for account in many]
    assert [task.ready() for task in held_up[:6]] == [True] * 5 + [False]
    for task in held_up[6:]:
        assert not task.ready()
    gevent.killall(held_up)


def test_other_address_is_served_while_one_holds_its_half():
    memory = RequestMemory(1000)
    first, second = memory.open(A), memory.open(A)
    memory.charge(first, 10)
    waiting = charging(memory, second, 600)
    assert not waiting.ready()
    assert memory.charge(memory.open(B), 300) is False
    memory.close(first)
    gevent.sleep(0)
    assert waiting.ready()


def test_killed_waiting_task_holds_no_memory():
    memory = RequestMemory(100)
    first, second = memory.open(A), memory.open(B)
    memory.charge(first, 100)
    task = charging(memory, second, 50)
    assert not task.ready()
    task.kill()
    memory.close(second)
    assert memory.held == 100
    memory.close(first)
    assert memory.held == 0
    assert not memory.short


def test_without_a_limit_no_request_waits():
    memory = RequestMemory(-1)
    assert [memory.charge(memory.open(A), 2**40) for _ in range(2)] == [False, False]
