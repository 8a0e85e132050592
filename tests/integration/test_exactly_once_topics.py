"""The example that copies a topic in transactions, while it and brokers are killed."""

import subprocess
import sys

import pytest

from examples.exactly_once_topics import prove


def test_each_message_is_copied_once_though_program_and_broker_are_killed() -> None:
    proof = prove(messages=200, kills=2)
    assert proof.holds, proof
    assert (proof.sent, proof.program_kills, proof.broker_kills) == (200, 2, 1)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_the_command_prints_its_proof() -> None:
    command = [sys.executable, "-m", "examples.exactly_once_topics", "prove"]
    done = subprocess.run(
        [*command, "--messages", "10000", "--kills", "50"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.endswith(
        "exactly once: 10000 messages in, 0 missing, 0 twice, 0 strange; "
        "killed 50 programs and 25 brokers\n"
    )
