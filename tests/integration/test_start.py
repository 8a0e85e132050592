"""Modules that a broker imports until it is ready: each adds to the time of its start."""

import json
import subprocess
import sys

from zkbroker.cluster.python_child import python_environment

START = """
import json, os, signal, sys
from zkbroker.cli import broker
from zkbroker.cli.main import main

def announce(*given):
    print(json.dumps(sorted(sys.modules)), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)

broker._announce = announce
main()
"""

MOST = 440
NOT_NEEDED = {
    "confluent_kafka",
    "flask",
    "prometheus_client",
    "pyarrow",
    "rich",
    "urllib.request",
    "zkbroker.admin",
    "zkbroker.broker.legacy07",
    "zkbroker.cluster",
    "zkbroker.console",
    "zkbroker.consumer",
    "zkbroker.mirror",
    "zkbroker.producer",
    "zkbroker.security.sasl.jwks",
    "zkbroker.zookeeper.embedded",
}


def test_broker_imports_only_needed_modules(tmp_path, chroot):
    properties = tmp_path / "server.properties"
    properties.write_text(
        f"broker.id=0\nport=0\nhost.name=127.0.0.1\nlog.dirs={tmp_path / 'data'}\n"
        f"zookeeper.connect={chroot}\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", START, "broker", str(properties)],
        capture_output=True,
        text=True,
        env=python_environment(),
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    modules = set(json.loads(done.stdout.splitlines()[0]))
    assert not modules & NOT_NEEDED
    assert sum(each.startswith("zkbroker") for each in modules) <= MOST
