import re

from examples.demo import access_log
from examples.demo.shipped import Shipped
from examples.demo.visits import Visits

LINE = b'1.2.3.4 - - [17/May/2015:10:05:03 +0200] "GET / HTTP/1.1" 200 1 "-" "x"'


def test_access_log_lines_are_parsed():
    assert access_log.member(LINE) == b"1.2.3.4"
    assert access_log.event_time_ms(LINE) == 1431849903000
    assert access_log.event_time_ms(b"no time") is None
    assert access_log.event_time_ms(b"[99/May/2015:10:05:03 +0200]") is None


def test_generated_access_log_is_deterministic(tmp_path):
    for name in ("a", "b"):
        access_log.generate(tmp_path / name, 500)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    lines = list(access_log.read(tmp_path / "a"))
    assert len(lines) == 500
    assert all(access_log.event_time_ms(line) for line in lines)
    assert all(re.match(rb"\d+\.\d+\.\d+\.\d+ - - \[", line) for line in lines)


def test_position_continues_in_a_grown_log_and_restarts_in_another(tmp_path):
    log, memory = tmp_path / "log", tmp_path / "memory.json"
    log.write_bytes(b"one\ntwo\n")
    shipped = Shipped.load(memory)
    assert shipped.position_in(log) == 0
    shipped.after(log, 2).save(memory)
    shipped = Shipped.load(memory)
    assert shipped.lines == 2
    assert shipped.position_in(log) == 8
    with log.open("ab") as more:
        more.write(b"three\n")
    assert list(access_log.read(log, shipped.position_in(log))) == [b"three"]
    log.write_bytes(b"another\n\nlog")
    assert shipped.position_in(log) == 0
    assert list(access_log.read(log)) == [b"another", b"log"]


def test_duplicate_message_is_counted_once():
    visits = Visits({0: 5})
    for offset in (4, 5, 6, 5):
        visits.count(0, offset, LINE)
    assert (visits.unique, visits.repeated) == (2, 1)
    assert visits.by_member == {b"1.2.3.4": 2}
