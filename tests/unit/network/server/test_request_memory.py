import gevent

from zkbroker.network.server.request_memory import RequestMemory

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"


def charging(account, size):
    task = gevent.spawn(account.charge, size)
    gevent.sleep(0)
    return task


def test_request_within_the_limit_does_not_wait():
    memory = RequestMemory(1000)
    first, second = memory.open(A), memory.open(B)
    assert first.charge(400) is False
    assert second.charge(400) is False
    assert memory.held == 800
    assert not memory.short


def test_only_the_oldest_request_continues_over_the_limit():
    memory = RequestMemory(1000)
    accounts = [memory.open(address) for address in (A, B, C)]
    tasks = [charging(account, 450) for account in accounts]
    assert [task.ready() for task in tasks] == [True, True, False]
    assert charging(accounts[0], 900).ready()  # one request is always finished
    assert memory.short
    accounts[0].complete()
    second = charging(accounts[1], 10)
    assert second.ready()  # now this is the oldest one
    assert not tasks[2].ready()
    accounts[0].close()
    gevent.sleep(0)
    assert tasks[2].value is True
    assert not memory.short


def test_one_address_holds_at_most_half_of_the_memory():
    memory = RequestMemory(1000)
    many = [memory.open(A) for _ in range(30)]
    held_up = [charging(account, 100) for account in many]
    assert [task.ready() for task in held_up[:6]] == [True] * 5 + [False]
    for task in held_up[6:]:
        assert not task.ready()
    gevent.killall(held_up)


def test_other_address_is_served_while_one_holds_its_half():
    memory = RequestMemory(1000)
    first, second = memory.open(A), memory.open(A)
    first.charge(10)
    waiting = charging(second, 600)
    assert not waiting.ready()
    assert memory.open(B).charge(300) is False
    first.close()
    gevent.sleep(0)
    assert waiting.ready()


def test_killed_waiting_task_holds_no_memory():
    memory = RequestMemory(100)
    first, second = memory.open(A), memory.open(B)
    first.charge(100)
    task = charging(second, 50)
    assert not task.ready()
    task.kill()
    second.close()
    assert memory.held == 100
    first.close()
    assert memory.held == 0
    assert not memory.short


def test_without_a_limit_no_request_waits():
    memory = RequestMemory(-1)
    assert [memory.open(A).charge(2**40) for _ in range(2)] == [False, False]
