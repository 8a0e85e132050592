"""Measures the work of code by counts that do not depend on the machine's load."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def executed_steps(work: Callable[[], object]) -> int:
    """Return how many Python instructions a call executes, in all functions together."""
    steps = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal steps
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        steps += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return steps


def entered_functions(work: Callable[[], object], package: str = "zkbroker") -> list[str]:
    """Return `file:function` of every function of a package that a call enters, in order.

    A generator counts each time it is resumed; comprehensions do not count.
    """
    found: list[str] = []

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        _, inside, path = code.co_filename.rpartition(f"/{package}/")
        if event == "call" and inside and not code.co_name.endswith("comp>"):
            found.append(f"{path}:{code.co_name}")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    return found
