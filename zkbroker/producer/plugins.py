"""Plug-ins by object, import path, entry point, own name or the name of the Java class.

A text is looked up in this order: names of ours, names of Java classes (so that old property files
work unmodified), `package.module:Name` or `package.module.Name`, entry points of the kind's group.
A class is instantiated without arguments.
"""

from collections.abc import Callable, Mapping
from typing import Any

from zkbroker.config.import_path import import_object, is_import_path
from zkbroker.errors import ConfigError
from zkbroker.producer import encoders, partitioners

_ENCODERS: dict[str, Callable[[], object]] = {
    "DefaultEncoder": encoders.DefaultEncoder,
    "StringEncoder": encoders.StringEncoder,
    "JsonEncoder": encoders.JsonEncoder,
    "NullEncoder": encoders.NullEncoder,
    "IntegerEncoder": encoders.IntegerEncoder,
    "LongEncoder": encoders.LongEncoder,
    "kafka.serializer.DefaultEncoder": encoders.DefaultEncoder,
    "kafka.serializer.StringEncoder": encoders.StringEncoder,
    "kafka.serializer.NullEncoder": encoders.NullEncoder,
    "kafka.serializer.IntegerEncoder": encoders.IntegerEncoder,
    "kafka.serializer.LongEncoder": encoders.LongEncoder,
    "org.apache.kafka.common.serialization.ByteArraySerializer": encoders.DefaultEncoder,
    "org.apache.kafka.common.serialization.ByteBufferSerializer": encoders.DefaultEncoder,
    "org.apache.kafka.common.serialization.BytesSerializer": encoders.DefaultEncoder,
    "org.apache.kafka.common.serialization.StringSerializer": encoders.StringEncoder,
    "org.apache.kafka.common.serialization.IntegerSerializer": encoders.IntegerEncoder,
    "org.apache.kafka.common.serialization.LongSerializer": encoders.LongEncoder,
}
_PARTITIONERS: dict[str, Callable[[], object]] = {
    "DefaultPartitioner": partitioners.DefaultPartitioner,
    "LegacyHashPartitioner": partitioners.LegacyHashPartitioner,
    "LegacyMaskPartitioner": partitioners.LegacyMaskPartitioner,
    "RandomPartitioner": partitioners.RandomPartitioner,
    "RoundRobinPartitioner": partitioners.RoundRobinPartitioner,
    "StickyPartitioner": partitioners.StickyPartitioner,
    "kafka.producer.DefaultPartitioner": partitioners.LegacyHashPartitioner,
    "kafka.producer.ByteArrayPartitioner": partitioners.LegacyHashPartitioner,
    "org.apache.kafka.clients.producer.internals.DefaultPartitioner": (
        partitioners.DefaultPartitioner
    ),
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": partitioners.RoundRobinPartitioner,
    "org.apache.kafka.clients.producer.UniformStickyPartitioner": partitioners.StickyPartitioner,
}
_NOTHING: dict[str, Callable[[], object]] = {}

# kind -> (property that names it, entry point group, names known, methods it must have)
KINDS: Mapping[str, tuple[str, str, Mapping[str, Callable[[], object]], tuple[str, ...]]] = {
    "encoder": ("serializer.class", "zkbroker.encoders", _ENCODERS, ("to_bytes",)),
    "partitioner": (
        "partitioner.class",
        "zkbroker.partitioners",
        _PARTITIONERS,
        ("partition",),
    ),
    "event_handler": ("event.handler", "zkbroker.event_handlers", _NOTHING, ("handle",)),
    "callback_handler": (
        "callback.handler",
        "zkbroker.callback_handlers",
        _NOTHING,
        ("before_enqueue", "after_enqueue", "after_dequeue", "before_send", "after_send", "close"),
    ),
    "interceptor": (
        "interceptor.classes",
        "zkbroker.interceptors",
        _NOTHING,
        ("on_send", "on_acknowledgement"),
    ),
}


def resolve(kind: str, given: object) -> Any:
    """Return the plug-in for an object or a name.

    Args:
        kind: one of `KINDS`.
        given: an object, a class, or a text as the module describes.

    Raises:
        ConfigError: it cannot be found, made, or lacks a method.
    """
    key, group, known, methods = KINDS[kind]
    found = _find(key, group, known, given) if isinstance(given, str) else given
    if isinstance(found, type) or (isinstance(given, str) and callable(found)):
        try:
            found = found()
        except Exception as error:
            raise ConfigError(f"{key}={given!r} cannot be made: {error!r}") from error
    missing = [name for name in methods if not callable(getattr(found, name, None))]
    if missing:
        raise ConfigError(f"{key}={given!r} is not allowed: it has no {', '.join(missing)}")
    return found


def _find(key: str, group: str, known: Mapping[str, Callable[[], object]], name: str) -> Any:
    if name in known:
        return known[name]
    if is_import_path(name):
        return import_object(key, name)
    # Imported only when needed: it takes longer than the rest of a small client.
    from importlib.metadata import entry_points

    points = entry_points(group=group)
    if name in points.names:
        try:
            return points[name].load()
        # Importing runs the module's code, which may raise anything.
        except Exception as error:
            raise ConfigError(
                f"{key}={name!r} is not allowed: its entry point cannot be imported ({error})"
            ) from error
    listed = ", ".join([*(each for each in known if "." not in each), *sorted(points.names)])
    raise ConfigError(
        f"{key}={name!r} is not allowed: give package.module:Name, an entry point of {group}"
        + (f", or one of {listed}" if listed else "")
    )
