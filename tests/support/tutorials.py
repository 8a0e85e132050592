"""The manual's tutorials, done as a reader does them, from the text of their pages.

    <!-- file: NAME -->        the block behind it is saved as NAME
    ```console                 each `$` line is run, what follows is its output
    <!-- terminal: NAME -->    its command goes on running; what follows is how its output goes on,
                               and so is the next block of that terminal

Output is compared without what differs between runs (`_VARYING`). Commands that only look
(`_LOOKS`) are repeated until they show what the page shows.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.markdown import ROOT

PATIENCE_S = 120
_UPDATING = "UPDATE_TUTORIALS" in os.environ
_PART = re.compile(
    r"(?:<!-- (?P<kind>file|terminal): (?P<name>[\w.-]+) -->\n+)?"
    r"```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*\n)((?:(?!\$ ).*\n)*)", re.MULTILINE)
# With acks=1, `offsets get` shows messages only once the followers have them.
_LOOKS = re.compile(
    r"python \S*znodes\.py|zkbroker (?:(?:topics|groups) describe|offsets get)|tail "
)
_ISR = re.compile(r'(Isr: |"isr":\[)([\d, ]+)')
_VARYING = re.compile(
    # Every 10 seconds of a slow load.
    r"(?m:^(?:planning|starting Spark, which takes some seconds|loading|publishing)(?:: .*)?\n)"
    r"|\b1\d{12}\b"  # times
    r'|_epoch":\d+'
    r"| (?:crc|size|position|partitionLeaderEpoch): \d+"
    r"|\d+(?:\.\d+)? s\b|[\d,]+ bytes|\([\d,]+/s\)"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?"
)


class Tutorial:
    """A reader of one page.

    Args:
        page: its file.
        directory: where the reader works; programs that lie there are used.
        places: port or path as the page has it -> as it is here.
        brokers: terminals in which brokers run; those that the page starts are added.
    """

    def __init__(
        self,
        page: Path,
        directory: Path,
        places: dict[str, str],
        brokers: "dict[str, Terminal] | None" = None,
    ) -> None:
        self._text = page.read_text(encoding="utf-8")
        self._page = page
        self._directory = directory
        self._places = places
        self._brokers = brokers if brokers is not None else {}
        self._terminals: dict[str, Terminal] = {}
        self._shown: list[tuple[int, int, str]] = []

    def save_programs(self) -> None:
        """Save the page's programs."""
        for part in _PART.finditer(self._text):
            if part["kind"] == "file":
                code = self._here(part["text"], programs=False)
                (self._directory / part["name"]).write_text(code, encoding="utf-8")

    def follow(self) -> None:
        """Do all that the page says; raises AssertionError where it shows another output.

        With UPDATE_TUTORIALS in the environment the page gets the outputs of this run.
        """
        self.save_programs()
        try:
            for part in _PART.finditer(self._text):
                if part["kind"] == "terminal":
                    self._in_terminal(part)
                elif part["language"] == "console":
                    for command in _COMMAND.finditer(part["text"]):
                        self._run(command, part.start("text"))
        finally:
            for terminal in self._terminals.values():
                terminal.end()
            if _UPDATING:
                self._update()

    def _run(self, command: re.Match[str], at: int) -> None:
        deadline = time.monotonic() + (15 if _UPDATING else PATIENCE_S)
        while True:
            ran = subprocess.run(
                ["bash"],
                input=self._here(command[1]),
                cwd=self._directory,
                env=environment(self._directory),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=3 * PATIENCE_S,
            )
            shown = self._there(ran.stdout)
            if _same(shown, command[2]):
                return
            if time.monotonic() > deadline or not _LOOKS.search(command[1]):
                break
            time.sleep(0.2)
        self._differs(command[1], at + command.start(2), command[2], shown)

    def _in_terminal(self, part: re.Match[str]) -> None:
        name, text, at = part["name"], part["text"], part.start("text")
        terminals = self._brokers if name in self._brokers or "broker" in name else self._terminals
        command = _COMMAND.match(text)
        if command:
            at, text = at + command.start(2), command[2]
            if name == "cluster":
                assert command[1] == terminals[name].command
                return  # it runs already
            terminals[name] = Terminal(self._here(command[1]), self._directory, command[1])
        shown = self._there(terminals[name].read(len(text.splitlines())))
        if not _same(shown, text):
            self._differs(f"terminal {name}", at, text, shown)

    def _differs(self, where: str, at: int, expected: str, shown: str) -> None:
        self._shown.append((at, at + len(expected), shown))
        if not _UPDATING:
            raise AssertionError(f"{where}\n-- the page:\n{expected}\n-- this run:\n{shown}")

    def _update(self) -> None:
        for start, end, shown in sorted(self._shown, reverse=True):
            self._text = self._text[:start] + shown + self._text[end:]
        self._page.write_text(self._text, encoding="utf-8")

    def _here(self, text: str, *, programs: bool = True) -> str:
        """Return a command of the page as it is here."""
        for shown, real in self._places.items():
            text = text.replace(shown, real)
        return re.sub(r"\b(\w+\.py)\b", rf"{self._directory}/\1", text) if programs else text

    def _there(self, text: str) -> str:
        """Return output as the page would show it."""
        for shown, real in self._places.items():
            text = re.sub(rf"(?<!\d){re.escape(real)}(?!\d)", shown, text)
        return text.replace(f"{self._directory}/", "")


class Terminal:
    """A command that goes on running, and its output; `command` is as the page has it."""

    def __init__(self, there: str, directory: Path, command: str) -> None:
        self.command = command
        self._process = subprocess.Popen(
            ["bash", "-c", f"exec {there}"],
            cwd=directory,
            env=environment(directory),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # A suite that a shell runs in its background ignores it, and so would the program.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def read(self, lines: int) -> str:
        """Wait for so many more lines of output."""
        assert self._process.stdout is not None
        return "".join(self._process.stdout.readline() for _ in range(lines))

    def end(self) -> None:
        """Press Ctrl-C."""
        self._process.send_signal(signal.SIGINT)
        self._process.communicate(timeout=PATIENCE_S)


def environment(directory: Path) -> dict[str, str]:
    """Return the environment of a reader who installed zkbroker."""
    bin_ = directory / "bin"
    if not bin_.exists():
        bin_.mkdir()
        for name, module in COMMANDS.items():
            (bin_ / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
            (bin_ / name).chmod(0o755)
    path = f"{bin_}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}


# A load's mappers run in the process of the command: each start of Spark takes many seconds.
COMMANDS = {
    "python": "",
    "zkbroker": "-m zkbroker.cli",
    "zkbroker-load": "-m tests.support.inline_load",
}


def _same(shown: str, expected: str) -> bool:
    return _compared(shown) == _compared(expected)


def _compared(text: str) -> list[str]:
    # The order of an ISR is the order in which its members joined.
    ordered = _ISR.sub(lambda isr: isr[1] + ",".join(sorted(re.findall(r"\d+", isr[2]))), text)
    return _VARYING.sub("", ordered).split()


def commands_in_terminal(page: Path, name: str) -> Iterator[str]:
    """Return the commands that a page runs in a terminal."""
    for part in _PART.finditer(page.read_text(encoding="utf-8")):
        command = _COMMAND.match(part["text"])
        if part["name"] == name and command:
            yield command[1]
