"""Message handlers of users, loaded by import path."""

import pytest

from zkbroker.consumer import MessageAndMetadata
from zkbroker.errors import ConfigError
from zkbroker.mirror.handlers import load, message_handler
from zkbroker.producer import KeyedMessage

HERE = "tests.unit.mirror.test_handlers"
MESSAGE = MessageAndMetadata("t", 0, -1, b"k", b"v", 5, 0, ())


class Suffixed:
    def __init__(self, args: str = "none") -> None:
        self.args = args

    def handle(self, message):
        return [KeyedMessage(message.topic, message.value + self.args.encode())]


class Broken:
    def __init__(self, args: str) -> None:
        raise RuntimeError("no such " + args)


def doubled(message):
    return [KeyedMessage(message.topic, message.value * 2)]


THING = object()


def test_handler_class_gets_its_argument():
    for args, expected in (("!", b"v!"), ("", b"vnone")):
        (sent,) = message_handler(f"{HERE}:Suffixed", args)(MESSAGE)
        assert sent.message == expected


def test_function_is_valid_handler():
    (sent,) = message_handler(f"{HERE}:doubled", "ignored")(MESSAGE)
    assert sent.message == b"vv"
    assert load("rebalance.listener", f"{HERE}:THING", "") is THING


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Missing", "message.handler=.*Missing"),
        ("Broken", "cannot be instantiated: RuntimeError.*no such x"),
        ("THING", "it has no method handle"),
    ],
)
def test_invalid_handler_is_refused(name, why):
    with pytest.raises(ConfigError, match=why):
        message_handler(f"{HERE}:{name}", "x")
