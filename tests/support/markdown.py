"""The examples of the README and the manual: code blocks after a line `<!-- example: name -->`."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
_EXAMPLE = re.compile(r"<!-- example: ([\w-]+) -->\n+```python\n(.*?)```", re.DOTALL)


@dataclass(frozen=True)
class Example:
    page: str
    name: str
    code: str

    def __str__(self):
        return f"{self.page}:{self.name}"


def pages():
    """Return the README and every page of the manual."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def examples():
    """Return all examples, in the order of the pages."""
    return [
        Example(page.relative_to(ROOT).as_posix(), *found.groups())
        for page in pages()
        for found in _EXAMPLE.finditer(page.read_text(encoding="utf-8"))
    ]


def example(page: str, name: str) -> str:
    """Return the code of one example."""
    return next(each.code for each in examples() if (each.page, each.name) == (page, name))


def write(path: Path, code: str, substitutions: dict[str, str]) -> Path:
    """Write an example to a file, with the addresses of the README replaced by real ones."""
    for shown, real in substitutions.items():
        code = code.replace(shown, real)
    path.write_text(code, encoding="utf-8")
    return path
