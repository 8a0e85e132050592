"""The main job, whole: publish, stream with rebalances, load, account; then with more lines."""

import re
import shlex
import signal
import subprocess
import sys

import pytest

from examples.demo import access_log
from tests.support.markdown import ROOT
from tests.support.process import wait_until

pytestmark = pytest.mark.spark


def demo(data, log, status=0):
    ran = subprocess.run(
        [sys.executable, "-m", "examples.demo", "--data", str(data), "--input", str(log)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert ran.returncode == status, ran.stdout + ran.stderr
    return ran.stdout


def interrupted(data, log):
    """Start the demo, and press Ctrl-C while its cluster runs."""
    command = [sys.executable, "-m", "examples.demo", "--data", str(data), "--input", str(log)]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # A shell ignores Ctrl-C for background commands; children would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as running:
        assert wait_until(lambda: (data / "cluster" / "broker-2.log").exists())
        running.send_signal(signal.SIGINT)
        assert "stopped; nothing is left running" in running.communicate(timeout=300)[0]
    assert running.returncode == 130


def test_demo_accounts_for_every_line_after_interrupt_and_rerun(tmp_path):
    log = tmp_path / "my access.log"
    access_log.generate(log, 2000)
    data = tmp_path / "my data"
    interrupted(data, log)
    shown = demo(data, log)
    assert "starting afresh" in shown
    assert "2000 published = 2000 streamed = 2000 loaded" in shown
    for moment in ("2 consumers", "a third joined", "the first left"):
        assert moment in shown
    # The suggested commands name this log and these data.
    again = re.search(r"^  make demo (.*)   # again", shown, re.MULTILINE)
    assert shlex.split(again[1]) == [f"INPUT={log}", f"DATA={data}"]
    status, verify, files = re.findall(
        r"^  (\S+/zkbroker-load \w+ --output '.*'/lake)$", shown, re.MULTILINE
    )
    for command, text in (
        (status, "page-views"),
        (verify, "no gap, no duplicate"),
        (files, ".parquet"),
    ):
        ran = subprocess.run(
            shlex.split(command), cwd=ROOT, capture_output=True, text=True, timeout=300, check=True
        )
        assert text in ran.stdout
    with log.open("a", encoding="ascii") as more:
        more.writelines(
            f'10.0.0.{n} - - [18/May/2015:00:00:{n:02} +0000] "GET / HTTP/1.1" 200 1 "-" "-"\n'
            for n in range(50)
        )
    assert "50 published = 50 streamed = 50 loaded" in demo(data, log)


def test_missing_access_log_is_reported(tmp_path):
    assert "no access log at" in demo(tmp_path / "data", tmp_path / "nowhere.log", status=2)
