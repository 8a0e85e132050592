"""What is in an output directory, counted without the loader: by names and a Parquet reader."""

import re
from pathlib import Path

import pyarrow.parquet as pq


def loaded_offsets(output: Path) -> dict[tuple[str, int], list[int]]:
    """Return the offsets in every visible Parquet file, sorted, with repetitions."""
    found: dict[tuple[str, int], list[int]] = {}
    for path in sorted(Path(output).glob("topic=*/date=*/hour=*/[!._]*.parquet")):
        topic = path.parts[-4].removeprefix("topic=")
        match = re.fullmatch(r"(.+)\+(\d{5})\+(\d{20})\+(\d{20})\+(.+)\.parquet", path.name)
        assert match is not None
        assert match[1] == topic
        offsets = pq.ParquetFile(path).read(["offset"]).column("offset").to_pylist()
        assert offsets == sorted(offsets)
        assert (offsets[0], offsets[-1] + 1) == (int(match[3]), int(match[4]))
        found.setdefault((topic, int(match[2])), []).extend(offsets)
    return {source: sorted(offsets) for source, offsets in found.items()}
