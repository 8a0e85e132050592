"""Wheels: built from the source distribution, installed apart, with C and without a compiler."""

import os
import shlex
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Mapping
from pathlib import Path

import pytest

from zkbroker.cluster.process import READY_PREFIX
from zkbroker.zookeeper.embedded import EmbeddedZooKeeper

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler"),
]
ROOT = Path(__file__).parents[2]
SOURCES = ("zkbroker", "spark_loader", "pyproject.toml", "setup.py", "MANIFEST.in", "README.md")
RECIPE = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]
SDIST = "from setuptools import build_meta; import sys; print(build_meta.build_sdist(sys.argv[1]))"


def run(
    *command: str | Path,
    cwd: Path,
    environment: Mapping[str, str] | None = None,
    timeout: int = 600,
) -> str:
    """Run a command without this tree on its path; returns its output."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**clean, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, made of a copy without built files."""
    copy = tmp_path_factory.mktemp("copy")
    unbuilt = shutil.ignore_patterns("*.so", "__pycache__")
    for name in (*SOURCES, "LICENSE"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=unbuilt)
        else:
            shutil.copy(ROOT / name, copy / name)
    tools = tmp_path_factory.mktemp("tools")
    venv.create(tools, with_pip=True)
    python = tools / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", "setuptools>=77", cwd=tools)
    made = tmp_path_factory.mktemp("sdist")
    run(python, "-c", SDIST, made, cwd=copy)
    (path,) = made.iterdir()
    return path


class Installed:
    """An environment with a wheel and nothing of this tree."""

    def __init__(self, directory: Path, sdist: Path, environment: Mapping[str, str]) -> None:
        self.directory = directory
        venv.create(directory, with_pip=True)
        wheels = directory / "wheels"
        self.built = self.python(
            *("-m", "pip", "wheel", "-v", "--no-deps", "--wheel-dir", wheels, sdist),
            environment=environment,
        )
        (self.wheel,) = wheels.iterdir()
        tests = RECIPE["test-requires"]
        self.python("-m", "pip", "install", "-q", self.wheel, *tests)

    def python(self, *words: str | Path, environment: Mapping[str, str] | None = None) -> str:
        python = self.directory / "bin" / "python"
        return run(python, *words, cwd=self.directory, environment=environment)

    def message_goes_round(self) -> str:
        """Serve, produce and consume with the wheel's own commands; returns the broker's log."""
        command = str(self.directory / "bin" / "zkbroker")
        with EmbeddedZooKeeper() as zookeeper:
            file, log = self.directory / "broker.properties", self.directory / "broker.log"
            file.write_text(
                f"broker.id=1\nhost.name=127.0.0.1\nport=0\nlog.dirs={self.directory / 'data'}\n"
                f"zookeeper.connect={zookeeper.connect_string}\n"
            )
            with (
                log.open("w") as errors,
                subprocess.Popen(
                    [command, "broker", str(file), "--stop-with-stdin"],
                    cwd=self.directory,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                ) as process,
            ):
                assert process.stdout is not None
                line = process.stdout.readline()
                assert line.startswith(READY_PREFIX), log.read_text()
                address = dict(part.split("=", 1) for part in line.split()[3:])["address"]
                subprocess.run(
                    [command, "produce", "-b", address, "-t", "visits"],
                    input="by a wheel\n",
                    text=True,
                    check=True,
                    timeout=120,
                )
                output = run(
                    *(command, "consume", "-b", address, "-o", "beginning", "-c", "1", "visits"),
                    cwd=self.directory,
                )
                process.communicate(timeout=300)
        assert "by a wheel" in output
        return log.read_text()


@pytest.fixture(scope="module")
def native(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("native"), sdist, RECIPE["environment"])


@pytest.mark.timeout(900)
def test_wheel_has_c_extensions_and_serves(native: Installed) -> None:
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert f"-{tag}-{tag}-linux_" in native.wheel.name
    assert "C extensions" not in native.message_goes_round()


@pytest.mark.timeout(900)
def test_cibuildwheel_test_command_passes(native: Installed, tmp_path: Path) -> None:
    for name in RECIPE["test-sources"]:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    path = f"{native.directory / 'bin'}:{os.environ['PATH']}"
    for command in RECIPE["test-command"].split(" && "):
        output = run(*shlex.split(command), cwd=tmp_path, environment={"PATH": path})
    assert " passed" in output
    assert "failed" not in output


@pytest.mark.timeout(900)
def test_wheel_without_compiler_is_pure_python_with_warning(sdist: Path, tmp_path: Path) -> None:
    pure = Installed(tmp_path, sdist, {"CC": "false"})
    for what in ("appends, compaction", "requests of producers", "Producer.send"):
        assert what in pure.built
    natives = "from zkbroker.records import kernels; print(kernels.NATIVE)"
    assert pure.python("-c", natives).strip() == "False"
    log = pure.message_goes_round()
    assert "slower: appends and compaction; requests of producers and consumers" in log


@pytest.mark.timeout(900)
def test_required_c_extensions_fail_build_without_compiler(sdist: Path, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="false"):
        Installed(tmp_path, sdist, {"CC": "false", **RECIPE["environment"]})
