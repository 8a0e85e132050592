"""Whether an installed zkbroker is a whole wheel: `python -m tests.support.wheel`.

It is found outside this tree, and its C twins do the work.
"""

from pathlib import Path

import zkbroker
from zkbroker.producer import intake
from zkbroker.protocol import plain
from zkbroker.records import kernels


def main() -> None:
    place = Path(zkbroker.__file__).resolve()
    assert "site-packages" in place.parts, f"not the installed one: {place}"
    for room in (kernels, plain, intake):
        assert room.NATIVE, f"{room.__name__}: its C twin is not in the wheel"
    print(f"zkbroker {zkbroker.__version__} with its C twins, {place.parent}")


if __name__ == "__main__":
    main()
