"""Loads the user's code in a mirror: message handlers and rebalance listeners, by import path.

    class Masked:
        def __init__(self, args: str = "") -> None: ...
        def handle(self, message: MessageAndMetadata) -> Iterable[KeyedMessage]: ...

A plain function of a message works too.
"""

from collections.abc import Callable, Iterable
from typing import Any

from zkbroker.config.import_path import import_object
from zkbroker.consumer import MessageAndMetadata
from zkbroker.errors import ConfigError
from zkbroker.producer import KeyedMessage

Handle = Callable[[MessageAndMetadata], Iterable[KeyedMessage]]


def load(key: str, path: str, args: str) -> Any:
    """Return the object at an import path; a class is instantiated, with the text if there is one.

    Raises:
        ConfigError: it cannot be imported or instantiated.
    """
    found = import_object(key, path)
    if not isinstance(found, type):
        return found
    try:
        return found(args) if args else found()
    except Exception as error:
        raise ConfigError(f"{key}={path!r} cannot be instantiated: {error!r}") from error


def message_handler(path: str, args: str) -> Handle:
    """Return the function of a message handler.

    Raises:
        ConfigError: it has none.
    """
    handler = load("message.handler", path, args)
    handle = getattr(handler, "handle", handler)
    if not callable(handle):
        raise ConfigError(f"message.handler={path!r} is not allowed: it has no method handle")
    function: Handle = handle
    return function
