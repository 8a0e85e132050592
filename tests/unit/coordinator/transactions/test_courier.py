import gevent
import gevent.event
import pytest

from zkbroker.coordinator.transactions.courier import Courier
from zkbroker.errors import NetworkError, RequestTimedOut
from zkbroker.runtime import get_runtime


def make(send, **more):
    return Courier("test", send, runtime=get_runtime("gevent"), **more)


def test_items_waiting_for_response_are_sent_together():
    sent = []

    def send(items):
        gevent.sleep(0.01)
        sent.append(list(items))
        return [each * 10 for each in items]

    courier = make(send, batch_items=3)
    first = courier.submit(0)
    gevent.sleep(0.002)
    tickets = [first, *(courier.submit(each) for each in range(1, 6))]
    assert [each.result() for each in tickets] == [0, 10, 20, 30, 40, 50]
    assert sent == [[0], [1, 2, 3], [4, 5]]
    assert courier.submit(7).result() == 70


def test_error_answers_every_item_of_batch():
    def send(items):
        raise RequestTimedOut("slow")

    tickets = [make(send).submit(each) for each in range(2)]
    for each in tickets:
        with pytest.raises(RequestTimedOut):
            each.result()


def test_missing_result_is_error():
    courier = make(lambda items: [])
    with pytest.raises(NetworkError, match="does not contain"):
        courier.submit(1).result()


def test_close_ends_all_waits():
    answer = gevent.event.AsyncResult()
    courier = make(lambda items: answer.get())
    under_way = courier.submit(1)
    gevent.sleep(0)
    waiting = courier.submit(2)
    courier.close()
    for ticket in (waiting, courier.submit(3)):
        with pytest.raises(NetworkError, match="stopping"):
            ticket.result()
    answer.set([10])
    assert under_way.result() == 10


def test_unforeseen_error_leaves_no_item_waiting(caplog):
    def send(items):
        gevent.sleep(0.01)
        if items == [1]:
            raise KeyError("unforeseen")
        return [each * 10 for each in items]

    courier = make(send, batch_items=1)
    failed = courier.submit(1)
    gevent.sleep(0)
    waiting = courier.submit(2)
    with pytest.raises(NetworkError, match="does not contain"):
        failed.result()
    with gevent.Timeout(10):
        assert waiting.result() == 20
    assert "unforeseen" in caplog.text
