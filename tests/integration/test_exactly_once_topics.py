"""The example that copies a topic in transactions, while it and brokers are killed."""

import subprocess
import sys

import pytest

from examples.exactly_once_topics import prove
from tests.support import soak


def test_each_message_is_copied_once_while_program_and_broker_are_killed() -> None:
    proof = prove(messages=200, kills=2)
    assert proof.holds, proof
    assert (proof.sent, proof.program_kills, proof.broker_kills) == (200, 2, 1)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_command_prints_proof() -> None:
    messages, kills = soak.part_of(10_000), 2 * soak.part_of(25)
    command = [sys.executable, "-m", "examples.exactly_once_topics", "prove"]
    done = subprocess.run(
        [*command, "--messages", str(messages), "--kills", str(kills)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.endswith(
        f"exactly once: {messages} messages in, 0 missing, 0 twice, 0 strange; "
        f"killed {kills} programs and {kills // 2} brokers\n"
    )
