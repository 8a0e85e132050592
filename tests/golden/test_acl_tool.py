"""The genuine kafka-acls and ours: the same command, the same nodes, the same output.

Each command of the recording is run in its order, through ZooKeeper or through a broker, by the
name of the genuine tool's class. After each, every node of ACLs has the data and the version that
the genuine tool left, and the output has the same lines. Genuine tools keep ACLs in hash sets: the
order of several is not compared.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from tests.support.authorized import SETTINGS
from tests.support.brokers import running_broker
from zkbroker.cli.main import cli
from zkbroker.zookeeper import ZkSession

DATA = Path(__file__).parent / "data" / "security" / "znodes-security-2.3.0.txt"
_CUT = 30
"""Lines of output that were recorded at most."""


@dataclass
class Command:
    name: str
    arguments: list[str] = field(default_factory=list)
    output: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    made: dict[str, tuple[int, str]] = field(default_factory=dict)


def commands() -> Iterator[Command]:
    command: Command | None = None
    for line in DATA.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            if command is not None and command.name.startswith("ACL:"):
                yield command
            command = Command(line[3:])
        elif command is None:
            continue
        elif line.startswith("$ kafka.admin.AclCommand"):
            # The principal with a blank stood as one argument.
            text = line[2:].replace("y z", "y\0z")
            command.arguments = [each.replace("\0", " ") for each in text.split()]
        elif line.startswith("  | "):
            command.output.append(line[4:])
        elif line.startswith("  - "):
            command.gone.append(line.split()[3])
        elif found := re.fullmatch(r"  \+ P v(\d+) (\S+)(?:  ->  (.*))?", line):
            version, path, data = found.groups()
            command.made[path] = (int(version), data or "")


COMMANDS = list(commands())


def comparable(path: str, found: tuple[int, str]) -> Any:
    """What must be equal of a node: its version, its layout, and its ACLs in any order."""
    version, data = found
    if not path.startswith(("/kafka-acl/", "/kafka-acl-extended/")) or not data:
        return found
    node = json.loads(data)
    assert json.dumps(node, separators=(",", ":"), ensure_ascii=False) == data
    return version, node["version"], sorted(tuple(each.items()) for each in node["acls"])


def nodes(zk: ZkSession, path: str) -> Iterator[tuple[str, tuple[int, str]]]:
    for name in zk.children(path):
        child = f"{path}/{name}"
        data, stat = zk.get(child)
        if data:
            yield child, (stat.version, data.decode())
        yield from nodes(zk, child)


def blocks(lines: list[str]) -> list[list[str]]:
    """The output by resources, without the order of them and of the ACLs in each."""
    found: list[list[str]] = []
    for line in lines:
        if line.strip().startswith(("Current ACLs", "Adding ACLs")):
            found.append([line.strip()])
        elif line.strip():
            found[-1].append(line.strip())
    return sorted([each[0], *sorted(each[1:])] for each in found)


def test_every_command_leaves_and_prints_what_the_genuine_tool_did(
    zookeeper: Any, tmp_path: Path
) -> None:
    where = f"{zookeeper.connect_string}/h23s"
    settings = {**SETTINGS, "super.users": "User:ANONYMOUS"}
    expected: dict[str, Any] = {}
    ran = 0
    with running_broker(tmp_path, where, settings) as broker, ZkSession(where) as zk:
        host, port = broker.address
        for command in COMMANDS:
            places = {"ZK:2181/h23s": where, "BROKER:9092": f"{host}:{port}"}
            arguments = [
                each
                if (key := each.rpartition("=")[2]) not in places
                else each.replace(key, places[key])
                for each in command.arguments
            ]
            done = CliRunner().invoke(cli, arguments)
            assert done.exit_code == 0, (command.name, done.output)
            if command.name == "ACL: remove one that is not there":
                # The genuine tool writes the node again as it was; ours leaves it alone.
                command.gone, command.made = [], {}
            for path in command.gone:
                expected.pop(path, None)
            expected.update((path, comparable(path, found)) for path, found in command.made.items())
            left = {
                path: comparable(path, found)
                for parent in zk.children("/")
                if parent.startswith("kafka-acl")
                for path, found in nodes(zk, f"/{parent}")
            }
            assert left == expected, command.name
            printed = done.stdout.splitlines()
            if len(command.output) < _CUT:
                assert blocks(printed) == blocks(command.output), command.name
            else:
                assert blocks(command.output)[0] in blocks(printed)
            if len(command.output) < 6:
                # One ACL in one resource: to the blank. The recording lacks the last line's end.
                assert [line.rstrip() for line in printed] == [
                    line.rstrip() for line in [*command.output, ""] if command.output
                ]
            ran += 1
    assert ran == len(COMMANDS) == 29
