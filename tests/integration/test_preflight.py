"""The check of `make` for missing programs, before it installs anything."""

import os
import shutil
import subprocess

import pytest

from tests.support.markdown import ROOT

TOOLS = ("sh", "sed", "head", "printf", "dirname")


@pytest.fixture
def machine(tmp_path):
    """A PATH with the tools of any machine, to which a test adds programs."""
    for tool in TOOLS:
        found = shutil.which(tool)
        if found:
            (tmp_path / tool).symlink_to(found)

    def put(name, script):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def check():
        environment = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "PYTHON")}
        return subprocess.run(
            ["sh", str(ROOT / "scripts" / "preflight.sh")],
            env=environment | {"PATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )

    check.put = put
    return check


NEW_PYTHON = "exit 0"
OLD_PYTHON = 'case "$*" in *version_info*) exit 1;; -V) echo Python 3.9.2;; esac'


def java(version):
    return f"echo 'openjdk version \"{version}\"' >&2"


def test_preflight_passes_with_python_and_java(machine):
    machine.put("python3", NEW_PYTHON)
    machine.put("java", java("17.0.15"))
    ran = machine()
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize(
    ("python", "jvm", "cause", "cure"),
    [
        (None, java("17"), "needs Python 3.11 or newer; no python3", "apt-get install python3"),
        (OLD_PYTHON, java("17"), "python3 is Python 3.9.2", "apt-get install python3.11"),
        (NEW_PYTHON, None, "need Java 17 or newer; no java", "openjdk-17-jre-headless"),
        (NEW_PYTHON, java("11.0.2"), "java is version 11", "openjdk-17-jre-headless"),
        (NEW_PYTHON, java("1.8.0_382"), "java is version 1", "openjdk-17-jre-headless"),
    ],
)
def test_preflight_names_missing_or_old_program_and_package(machine, python, jvm, cause, cure):
    if python is not None:
        machine.put("python3", python)
    if jvm is not None:
        machine.put("java", jvm)
    ran = machine()
    assert ran.returncode == 1
    assert cause in ran.stderr
    assert cure in ran.stderr
