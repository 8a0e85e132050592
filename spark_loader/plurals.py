"""Words in messages that depend on a number."""


def counted(number: int, noun: str) -> str:
    """Return `1 file`, `2 files`, `1,000 files`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
