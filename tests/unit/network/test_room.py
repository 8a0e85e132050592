import gevent

from zkbroker.network.room import Room


def started(room: Room, sizes: list[int]) -> tuple[list[gevent.Greenlet], list[int]]:
    order: list[int] = []

    def work(size: int) -> None:
        room.take(size)
        order.append(size)

    tasks = [gevent.spawn(work, size) for size in sizes]
    gevent.sleep(0)
    gevent.sleep(0)
    return tasks, order


def test_what_fits_is_taken_at_once_and_the_rest_in_order_of_arrival() -> None:
    room = Room(100)
    tasks, order = started(room, [60, 40, 90, 5])
    assert order == [60, 40]
    assert room.full
    room.give_back(40)
    gevent.sleep(0)
    assert order == [60, 40]  # 5 would fit, and must not make 90 wait for ever
    room.give_back(60)
    gevent.joinall(tasks)
    assert order == [60, 40, 90, 5]
    assert room.taken == 95
    assert not room.full


def test_one_that_is_larger_than_the_room_gets_it_alone() -> None:
    room = Room(100)
    tasks, order = started(room, [1, 500, 1])
    assert order == [1]
    room.give_back(1)
    gevent.sleep(0)
    assert order == [1, 500]
    room.give_back(500)
    gevent.joinall(tasks)
    assert room.taken == 1


def test_who_is_killed_while_it_waits_leaves_nothing_taken() -> None:
    room = Room(100)
    tasks, order = started(room, [100, 50, 60])
    tasks[1].kill()
    room.give_back(100)
    gevent.joinall(tasks)
    assert order == [100, 60]
    assert room.taken == 60


def test_without_a_limit_nobody_waits() -> None:
    room = Room(-1)
    _, order = started(room, [2**40, 2**40])
    assert order == [2**40, 2**40]
