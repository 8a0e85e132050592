import subprocess
import sys
from pathlib import Path

import zkbroker
from zkbroker.cluster.python_child import python_command, python_environment

ROOT = Path(zkbroker.__file__).resolve().parent.parent


def ask(directory, **environment):
    ran = subprocess.run(
        python_command("zkbroker.cli", "--version"),
        cwd=directory,
        env=python_environment(environment),
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.stdout or ran.stderr


def test_child_ignores_packages_in_its_working_directory(tmp_path):
    (tmp_path / "zkbroker").mkdir()
    (tmp_path / "zkbroker" / "__init__.py").write_text("raise SystemExit('astray')")
    assert ask(tmp_path) == f"zkbroker {zkbroker.__version__}\n"


def test_child_imports_the_package_of_a_checkout(tmp_path):
    # As from a checkout: no site directory knows the package, only the working directory does.
    code = (
        "import sys, subprocess; sys.path.insert(0, sys.argv[1])\n"
        "from zkbroker.cluster.python_child import python_environment\n"
        "print(python_environment()['PYTHONPATH'])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(ROOT)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip().split(":")[0] == str(ROOT)


def test_pythonpath_is_kept(tmp_path):
    environment = python_environment({"PYTHONPATH": str(tmp_path), "A": "1"})
    assert environment["PYTHONPATH"].split(":")[-1] == str(tmp_path)
    assert environment["A"] == "1"
