"""Child processes end with their parent."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support.zookeeper import until
from zkbroker.runtime.child_process import start_child


def run(tmp_path, code, **options):
    with (tmp_path / "out").open("wb") as output:
        child = start_child([sys.executable, "-c", code], cwd=tmp_path, output=output, **options)
        child.wait(30)
    return child.returncode, (tmp_path / "out").read_text()


def test_child_has_its_own_directory_environment_and_output(tmp_path):
    code = (
        "import os, sys; print(os.getcwd(), os.environ['X'], sys.stdin.read() == ''); sys.exit(3)"
    )
    assert run(tmp_path, code, environment={**os.environ, "X": "1"}) == (3, f"{tmp_path} 1 True\n")


def test_child_is_in_its_own_session(tmp_path):
    status, printed = run(tmp_path, "import os; print(os.getsid(0) == os.getpid())")
    assert (status, printed) == (0, "True\n")


def test_missing_program_is_an_error_or_fails(tmp_path):
    with (tmp_path / "out").open("wb") as output:
        try:
            child = start_child(["/no/such/program"], cwd=tmp_path, output=output)
        except OSError:
            return
        assert child.wait(30) != 0


def test_unusable_command_is_an_error_and_later_children_start(tmp_path):
    with pytest.raises(ValueError, match="null byte"), (tmp_path / "out").open("wb") as output:
        start_child(["/bin/true", "\0"], cwd=tmp_path, output=output)
    assert run(tmp_path, "print(1)") == (0, "1\n")


def test_child_outlives_the_thread_that_started_it(tmp_path):
    children = []
    with (tmp_path / "out").open("wb") as output:
        starter = threading.Thread(
            target=lambda: children.append(
                start_child(["/bin/sleep", "60"], cwd=tmp_path, output=output)
            )
        )
        starter.start()
        starter.join()
        assert children[0].poll() is None
        children[0].kill()
        children[0].wait(30)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux kills it")
def test_child_dies_with_its_killed_parent(tmp_path):
    program = (
        "import os, signal, sys; from pathlib import Path\n"
        "from zkbroker.runtime.child_process import start_child\n"
        "child = start_child(['/bin/sleep', '60'], cwd=Path('.'), output=open('o', 'wb'))\n"
        "print(child.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == -signal.SIGKILL
    pid = int(done.stdout)
    until(lambda: not _alive(pid))


def _alive(pid):
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False
