"""Fetch the console's libraries from npm, or with --check compare them with npm's.

`zkbroker/console/static/vendor/VERSIONS` lists each file with the package, version and path that it
comes from. No file is changed by hand: to upgrade, change a line and run this script. An import of
the package "preact" becomes one of the file beside it, as browsers need it.
"""

import argparse
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VENDOR = Path(__file__).resolve().parent.parent / "zkbroker" / "console" / "static" / "vendor"


def listed() -> list[tuple[str, str, str]]:
    """Return (name of the file here, package@version, path in the package) of each file."""
    lines = (VENDOR / "VERSIONS").read_text(encoding="utf-8").splitlines()
    table = lines[next(at for at, line in enumerate(lines) if line.startswith("file ")) + 1 :]
    rows = (line.split()[:4] for line in table if line)
    return [(name, f"{package}@{version}", path) for name, package, version, path in rows]


def fetch(package: str, directory: Path) -> Path:
    """Unpack a package into a directory, and return where its files are."""
    folder = directory / package.replace("@", "-")
    if not folder.exists():
        folder.mkdir()
        command = ["npm", "pack", "--silent", package]
        packed = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
        with tarfile.open(folder / packed.stdout.split()[-1]) as archive:
            archive.extractall(folder, filter="data")
    return folder / "package"


def for_browsers(content: bytes) -> bytes:
    """Return a script with imports for browsers, and without its source map."""
    content = re.sub(rb'from ?"preact"', b'from"./preact.js"', content)
    return re.sub(rb"\n//# sourceMappingURL=.*", b"", content)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare only; 1 when a file differs")
    check = parser.parse_args().check
    differing = 0
    with tempfile.TemporaryDirectory() as directory:
        for name, package, path in listed():
            content = for_browsers((fetch(package, Path(directory)) / path).read_bytes())
            if check and (VENDOR / name).read_bytes() != content:
                print(f"{name} is not {path} of {package}", file=sys.stderr)
                differing += 1
            if not check:
                (VENDOR / name).write_bytes(content)
    return min(differing, 1)


if __name__ == "__main__":
    sys.exit(main())
