"""The position up to which an access log has been published, as a log shipper keeps it.

Invariant: a line is published by exactly one run. A log that begins with the bytes published before
    has grown, and is continued after them; any other log is new, and published from its start.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Shipped:
    """The lines that earlier runs published.

    Args:
        lines: how many lines, of all logs.
        size: bytes of the latest log.
        digest: SHA-256 of these bytes.
    """

    lines: int = 0
    size: int = 0
    digest: str = hashlib.sha256().hexdigest()

    @classmethod
    def load(cls, path: Path) -> "Shipped":
        """Read the record; without one, nothing was published."""
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return cls()

    def position_in(self, log: Path) -> int:
        """Return the byte position from which a log is to be published."""
        return self.size if digest_of(log, self.size) == self.digest else 0

    def after(self, log: Path, lines: int) -> "Shipped":
        """Return the record after `lines` more lines, up to the end of `log`, were published."""
        size = log.stat().st_size
        digest = digest_of(log, size)
        assert digest is not None
        return Shipped(self.lines + lines, size, digest)

    def save(self, path: Path) -> None:
        """Write the record atomically."""
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(self)), encoding="utf-8")
        fresh.replace(path)


def digest_of(log: Path, size: int) -> str | None:
    """Return the SHA-256 of the first `size` bytes of a log, None if it is shorter."""
    if log.stat().st_size < size:
        return None
    digest = hashlib.sha256()
    with log.open("rb") as data:
        while size:
            block = data.read(min(size, 1 << 20))
            digest.update(block)
            size -= len(block)
    return digest.hexdigest()
