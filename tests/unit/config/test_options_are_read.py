"""Every option is read by the code, or documented as without effect."""

import ast
import inspect
import re
import textwrap
from pathlib import Path

import pytest

from zkbroker.config.broker import BrokerConfig
from zkbroker.config.consumer import ConsumerConfig
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.config.log import LogConfig, LogManagerConfig
from zkbroker.config.producer import ProducerConfig
from zkbroker.config.schema import options

ROOT = Path(__file__).parents[3] / "zkbroker"
READ = {name for path in ROOT.rglob("*.py") for name in re.findall(r"\.(\w+)", path.read_text())}

# The packages that use a client's configuration, and the excluded packages of other clients.
CLIENTS = {
    ConsumerConfig: (["consumer"], ["consumer/group"]),
    GroupConsumerConfig: (["consumer/group"], []),
    ProducerConfig: (["producer"], []),
}
CHECKS = ("__post_init__", "from_properties")


@pytest.mark.parametrize(
    "config",
    [
        BrokerConfig,
        ConsumerConfig,
        GroupConsumerConfig,
        LogConfig,
        LogManagerConfig,
        ProducerConfig,
    ],
)
def test_options_are_read_or_documented_without_effect(config):
    unread = [
        declared_option.keys[0][0]
        for declared, declared_option in options(config)
        if "without effect" not in declared_option.doc and declared.name not in READ
    ]
    assert unread == []


def attributes_read(tree: ast.AST, receivers: tuple[str, ...]) -> set[str]:
    """Return the attributes that are read of variables named `receivers`."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = node.value
            name = getattr(owner, "id", None) or getattr(owner, "attr", None)
            if name in receivers:
                found.add(node.attr)
    return found


@pytest.mark.parametrize("config", CLIENTS)
def test_client_options_are_read_in_client_packages(config):
    rooms, others = CLIENTS[config]
    read: set[str] = set()
    for path in (path for room in rooms for path in (ROOT / room).rglob("*.py")):
        if not any((ROOT / other) in path.parents for other in others):
            read |= attributes_read(ast.parse(path.read_text()), ("config", "_config"))
    classes = [each for each in config.__mro__ if each is not object]
    bodies = [ast.parse(textwrap.dedent(inspect.getsource(each))).body[0] for each in classes]
    methods = [each for body in bodies for each in body.body if isinstance(each, ast.FunctionDef)]
    # Options read by called methods count; two rounds cover methods that call another one.
    for _ in range(2):
        for method in methods:
            if method.name in read and method.name not in CHECKS:
                read |= attributes_read(method, ("self",))
    assert sorted({declared.name for declared, _ in options(config)} - read) == []
