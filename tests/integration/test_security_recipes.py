"""The recipes of docs/security.md run unchanged, and protect as they promise."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.markdown import ROOT
from tests.support.secure_zookeeper import SecureZooKeeper
from zkbroker.zookeeper import NotPermitted, ZkSession
from zkbroker.zookeeper.embedded import free_port

BLOCK = re.compile(
    r"<!-- recipe: (\w+)(?: uses (\w+))? -->\n```(?:properties|console|text)\n(.*?)```", re.DOTALL
)
PAGE = (ROOT / "docs/security.md").read_text()


class Recipe:
    """The blocks of one recipe, in a directory of their own.

    Args:
        name: of the recipe.
        directory: stands for `/etc/zkbroker`.
        zookeeper: stands for `zk1:2181`.
    """

    def __init__(self, name: str, directory: Path, zookeeper: str) -> None:
        self.directory = directory
        self.port = free_port()
        self._replaced = {
            "zk1:2181/kafka": f"{zookeeper}/{directory.name}",
            "/etc/zkbroker": str(directory),
            "/var/lib/zkbroker": str(directory / "data"),
            ":9093": f":{self.port}",
            ":9092": f":{self.port}",
            "broker1": "localhost",
        }
        self.zookeeper = self._replaced["zk1:2181/kafka"]
        self.commands = []
        own = [block for block in BLOCK.findall(PAGE) if block[0] == name]
        used = {block[1] for block in own if block[1]}
        for of, _, text in BLOCK.findall(PAGE):
            if of == name or (of in used and "$ openssl" in text):
                self._take(text)
        assert own

    def _take(self, text: str) -> None:
        for shown, real in self._replaced.items():
            text = text.replace(shown, real)
        if text.startswith("# file: "):
            head, _, body = text.partition("\n")
            file = self.directory / head.removeprefix("# file: ")
            file.write_text(body)
        else:
            self.commands.append([line[2:] for line in text.splitlines() if line.startswith("$ ")])

    def run(self, command: str, code: int = 0) -> str:
        environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.directory,
            env=environment,
            text=True,
            capture_output=True,
            timeout=300,
        )
        assert done.returncode == code, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def run_all(self, commands: list[str]) -> list[str]:
        return [self.run(command) for command in commands]

    def broker(self) -> "Running":
        return Running(self.directory)


class Running:
    """A broker from the recipe's file."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __enter__(self) -> None:
        with (self._directory / "broker.log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "zkbroker.cli", "broker", "server.properties"],
                cwd=self._directory,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        ready = self._process.stdout.readline()
        assert "ready" in ready, (self._directory / "broker.log").read_text()

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(300)
        self._process.stdout.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    users = {"kafka": "zookeeper-secret"}
    with SecureZooKeeper(tmp_path_factory.mktemp("zk"), users) as started:
        yield started


@pytest.fixture
def recipe(server, tmp_path, request):
    return Recipe(request.node.name.rpartition("_")[2], tmp_path, server.connect_string)


def test_recipe_trusted(recipe):
    with recipe.broker():
        recipe.run(f"zkbroker topics create visits --partitions 1 -z {recipe.zookeeper}")
        recipe.run(f"echo hello | zkbroker produce -t visits -b localhost:{recipe.port}")
    assert (recipe.directory / "data").stat().st_mode & 0o777 == 0o700


def test_recipe_tls(recipe):
    certificates, use = recipe.commands
    recipe.run_all(certificates)
    with recipe.broker():
        assert recipe.run_all(use)[-1].splitlines()[0] == "hello"
        output = recipe.run(
            f"echo hello | zkbroker produce -t visits -b localhost:{recipe.port}"
            " -X message.send.max.retries=0 -X request.timeout.ms=2000",
            code=1,
        )
        assert "hello" not in output
        output = recipe.run(f"zkbroker topics create more -z {recipe.zookeeper}", code=1)
        assert "no broker has a listener of security.protocol=PLAINTEXT; they have SSL" in output
        assert "--command-config FILE" in output


def test_recipe_acls(recipe):
    certificates, users, use = recipe.commands
    recipe.run_all(certificates)
    recipe.run_all(users)
    with recipe.broker():
        assert recipe.run_all(use)[-1].splitlines()[0] == "hello"
        # Alice has her rights only, and a wrong login has none.
        create = f"zkbroker topics create other --partitions 1 -z {recipe.zookeeper}"
        recipe.run(f"{create} --command-config broker-client.properties")
        read = f"zkbroker consume -e --command-config alice.properties -b localhost:{recipe.port}"
        output = recipe.run(f"{read} -t other", code=1)
        assert "other" in output
        output = recipe.run("zkbroker metadata -b localhost:1 --command-config alice.properties", 1)
        assert "can be read by every user" not in output
        recipe.run("sed -i s/alice-secret/wrong/ secrets.properties")
        output = recipe.run(f"{read} -t visits", code=1)
        assert "login of the user 'alice'" in output
        assert "wrong" not in output


def test_recipe_zookeeper(recipe):
    (use,) = recipe.commands
    with ZkSession(recipe.zookeeper) as session:
        # As a broker without a login left it.
        session.create("/config/users/alice", b"{}", parents=True)
    with recipe.broker():
        assert recipe.run_all(use)[-1].split() == ["visits"]
        with ZkSession(recipe.zookeeper) as stranger:
            for forbidden in (
                lambda: stranger.get("/config/users/alice"),
                lambda: stranger.delete("/controller"),
                lambda: stranger.set("/brokers/ids/1", b"{}"),
                lambda: stranger.create("/admin/delete_topics/visits"),
            ):
                with pytest.raises(NotPermitted):
                    forbidden()
        refused = f"zkbroker topics create more --partitions 1 -z {recipe.zookeeper}"
        assert "ZooKeeper permits it only to another login" in recipe.run(refused, code=1)
