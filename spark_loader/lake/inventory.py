"""What files there are, in a few bytes: how many, how long, and one fingerprint of all.

    fingerprint = sum over the files of the first 16 bytes of SHA-256(path, length), modulo 2^128

Invariant: inventories of the same names and lengths are equal, in whatever order the files were
counted, and a file can be added or taken away without looking at the others. So a manifest says
in one line what the directory must hold, and a listing is enough to compare it.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from spark_loader.json_codec import written

_MODULUS = 1 << 128


@dataclass(frozen=True, slots=True)
class Inventory:
    """The number of files, their bytes and their fingerprint."""

    files: int = 0
    size_bytes: int = 0
    fingerprint: int = field(
        default=0, metadata=written(lambda found: f"{found:032x}", lambda text: int(text, 16))
    )

    @classmethod
    def of(cls, files: Iterable[tuple[str, int]]) -> "Inventory":
        """Count files, given as path and length in bytes."""
        return cls().changed(added=files)

    def changed(
        self, *, added: Iterable[tuple[str, int]] = (), removed: Iterable[tuple[str, int]] = ()
    ) -> "Inventory":
        """Return the inventory after files came and went."""
        count, total, fingerprint = self.files, self.size_bytes, self.fingerprint
        for sign, files in ((1, added), (-1, removed)):
            for path, size in files:
                count += sign
                total += sign * size
                fingerprint += sign * _fingerprint(path, size)
        return Inventory(count, total, fingerprint % _MODULUS)


def _fingerprint(path: str, size: int) -> int:
    digest = hashlib.sha256(f"{path}\0{size}".encode()).digest()
    return int.from_bytes(digest[:16], "big")
