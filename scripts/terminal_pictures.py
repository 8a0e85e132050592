"""Pictures of commands in a terminal: their output with colours, drawn by Chromium."""

import fcntl
import html
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyte

COLOURS = {
    "default": "#d9dde1", "black": "#5b6570", "red": "#ff938a", "green": "#74cf97",
    "brown": "#e9b862", "yellow": "#e9b862", "blue": "#84b9f5", "magenta": "#c39ce8",
    "cyan": "#6fcfd6", "white": "#ffffff",
}  # fmt: skip
STYLE = """
  body { margin: 0; background: #fff; }
  figure { display: inline-block; margin: 0; border-radius: 8px; background: #14181c; }
  figcaption { padding: 8px 14px; border-bottom: 1px solid #2c3238; color: #9ba5ae; }
  pre { margin: 0; padding: 12px 14px; color: #d9dde1; }
  figcaption, pre { font: 13px/1.3 "DejaVu Sans Mono", "Noto Sans Mono", monospace; }
"""


def run_in_terminal(
    command: Sequence[str],
    *,
    columns: int = 110,
    rows: int = 60,
    directory: str | None = None,
    paths: Mapping[str, str] | None = None,
    during: Callable[[str], bool] = lambda text: False,
    timeout_s: float = 600,
) -> list[Any]:
    """Run a command in a terminal; return the lines that it left there.

    Args:
        command: with its arguments.
        columns: of the terminal.
        rows: of the terminal.
        directory: that it runs in.
        paths: of this machine, each with its replacement for readers of the manual.
        during: a condition of the terminal's text; the screen at which it first holds comes before
            the last one.
        timeout_s: of the command.
    """
    screen = pyte.Screen(columns, rows)
    stream = pyte.ByteStream(screen)
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    known = {**os.environ, "TERM": "xterm-256color"}
    process = subprocess.Popen(
        command, stdin=its, stdout=its, stderr=its, env=known, cwd=directory, close_fds=True
    )
    os.close(its)
    deadline = time.monotonic() + timeout_s
    kept: list[Any] | None = None
    try:
        while time.monotonic() < deadline:
            if not select.select([ours], [], [], 1)[0]:
                continue
            try:
                data = os.read(ours, 65536)
            except OSError:
                break  # the other end is closed
            if not data:
                break
            for path, shown in (paths or {}).items():
                data = data.replace(path.encode(), shown.encode())
            stream.feed(data)
            if kept is None and during("\n".join(screen.display)):
                kept = _lines(screen)
        else:
            raise TimeoutError(f"{command[0]} took more than {timeout_s} s")
        if process.wait(30):
            raise RuntimeError(f"{command} ended with {process.returncode}: {screen.display}")
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return (kept or []) + _lines(screen)


def _lines(screen: Any) -> list[Any]:
    """Return the lines of a screen as (text, colour, bold) pieces, up to the last with text."""
    lines = []
    for number in range(screen.lines):
        row = screen.buffer[number]
        pieces: list[list[Any]] = []
        for column in range(screen.columns):
            cell = row[column]
            look = (cell.fg, cell.bold)
            if pieces and pieces[-1][1] == look:
                pieces[-1][0] += cell.data
            else:
                pieces.append([cell.data, look])
        lines.append([(text, *look) for text, look in pieces])
    while lines and not "".join(piece[0] for piece in lines[-1]).strip():
        lines.pop()
    return lines


def picture(page: Any, command: str, lines: list[Any]) -> Any:
    """Draw lines of a terminal in a page; return the element to take a picture of."""
    shown = []
    for line in lines:
        text = ""
        for piece, colour, bold in line:
            found = COLOURS.get(colour, f"#{colour}" if len(colour) == 6 else COLOURS["default"])
            weight = ";font-weight:bold" if bold else ""
            text += f'<span style="color:{found}{weight}">{html.escape(piece)}</span>'
        shown.append(text)
    body = "\n".join(shown)
    page.set_content(
        f"<style>{STYLE}</style><figure><figcaption>$ {html.escape(command)}</figcaption>"
        f"<pre>{body}</pre></figure>"
    )
    return page.locator("figure")
