"""Damage to frames, for tests of everything that reads from a network."""

import random

LENGTHS = (-1, -2, 0, 1, 4, 255, 65536, 0x7FFF0000, 2**31 - 1, -(2**31))
"""Values of lengths and counts that a reader must bound."""


def mutated(frame: bytes, chance: random.Random) -> bytes:
    """Flip, remove, insert, repeat and cut bytes, and write wild lengths; some frames stay."""
    data = bytearray(frame)
    for _ in range(chance.choice([0, 1, 1, 2, 5])):
        at = chance.randrange(len(data)) if data else 0
        kind = chance.randrange(7)
        if kind == 0 and data:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del data[at : at + chance.randint(1, 20)]
        elif kind == 2:
            data[at:at] = chance.randbytes(chance.randint(1, 20))
        elif kind == 3:
            data[at:at] = data[at : at + chance.randint(1, 50)]
        elif kind == 4:
            length = chance.choice((*LENGTHS, len(data)))
            data[at : at + 4] = length.to_bytes(4, "big", signed=True)
        elif kind == 5:
            del data[at:]
        else:
            data = bytearray(chance.randbytes(chance.randrange(200)))
    return bytes(data)
