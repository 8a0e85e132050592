"""Starting Spark: errors, interrupts and the output of Java."""

import logging
import os
import signal
import subprocess
import sys

import pytest

from spark_loader.session import _interrupts_deferred, quiet_interrupts

pytestmark = pytest.mark.spark


def run_python(program, **environment):
    """Run a program in its own process."""
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        check=False,
    )


def test_missing_pyarrow_error_names_extra(tmp_path):
    program = (
        "import importlib.util, sys\n"
        "found = importlib.util.find_spec\n"
        "hidden = lambda name, *rest: None if name == 'pyarrow' else found(name, *rest)\n"
        "importlib.util.find_spec = hidden\n"
        "from zkbroker.cli.load import main\n"
        "main()\n"
    )
    ran = run_python(program)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == (
        "error: spark_loader needs PySpark and PyArrow: pip install 'zkbroker[lake]' for loads, "
        "'zkbroker[spark]' for the source alone\n"
    )


def test_old_java_is_refused(tmp_path):
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'java version \"1.8.0_392\"' >&2\nexit 1\n")
    old.chmod(0o755)
    program = (
        "from spark_loader import session\n"
        "from zkbroker.errors import RegistryError\n"
        "try:\n"
        "    session('local[1]')\n"
        "except RegistryError as error:\n"
        "    print(error)\n"
    )
    ran = run_python(program, JAVA_HOME=str(tmp_path))
    assert "need Java 17 or newer, and" in ran.stdout, ran.stderr
    assert "is version 8" in ran.stdout


def test_interrupt_is_deferred_until_spark_has_started():
    before = signal.getsignal(signal.SIGINT)
    started = False
    with pytest.raises(KeyboardInterrupt), _interrupts_deferred():
        os.kill(os.getpid(), signal.SIGINT)
        started = True
    assert started
    assert signal.getsignal(signal.SIGINT) is before


def test_interrupts_are_not_logged(caplog):
    with quiet_interrupts():
        for error in (KeyboardInterrupt(), OSError("broken")):
            try:
                try:
                    raise error
                finally:
                    raise RuntimeError(f"after {error!r}")
            except RuntimeError:
                logging.exception("while sending")  # noqa: LOG015 - as Py4J does
                logging.getLogger("py4j.clientserver").exception("while closing")
    assert [str(each.exc_info[1]) for each in caplog.records] == ["after OSError('broken')"] * 2


PROGRAM = """
import io, logging, signal, sys
from spark_loader.session import interruptible_session
heard = sys.stderr = io.StringIO()
before = signal.getsignal(signal.SIGINT)
spark = interruptible_session("local[1]", None)
print(signal.getsignal(signal.SIGINT) is before)
spark._jvm.java.lang.System.err.println("from Java")
for _ in range(100):
    if "from Java" in heard.getvalue():
        break
    import time
    time.sleep(0.1)
print(repr(heard.getvalue()))
spark.stop()
"""


def test_session_keeps_interrupt_handler_and_relays_java_output():
    """The progress display can then handle the output of Java, and Ctrl-C stays an interrupt."""
    ran = run_python(PROGRAM)
    assert ran.stdout == "True\n'from Java\\n'\n", ran.stderr
    assert ran.stderr == ""
