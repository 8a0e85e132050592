"""Dataclasses round-trip through JSON; invalid documents are refused."""

import json
from dataclasses import dataclass, field

import pytest

from spark_loader.json_codec import from_json, to_json, written
from spark_loader.reading.positions import TopicPartition
from spark_loader.reading.splits import OffsetRange
from zkbroker.types import Partition07


@dataclass(frozen=True)
class Inventory:
    files: int = 0
    size_bytes: int = 0
    fingerprint: int = field(
        default=0, metadata=written(lambda found: f"{found:032x}", lambda text: int(text, 16))
    )


@dataclass(frozen=True, kw_only=True)
class Document:
    run: int
    sure: bool = False
    names: tuple[str, ...] = ()
    mappers: tuple[tuple[OffsetRange, ...], ...] = ()
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    created_ms: dict[str, int] = field(default_factory=dict)
    lake: Inventory | None = None
    upper: str = field(default="", metadata=written(lambda text: text.upper() or None, str.lower))


FULL = Document(
    run=7,
    sure=True,
    names=("a", "b"),
    mappers=((OffsetRange("t", 0, 1, 5, 9),), (OffsetRange("old", Partition07(1, 2), 0, 9),)),
    positions={TopicPartition("t", 0): 5, TopicPartition("old", Partition07(1, 2)): 9},
    created_ms={"t": 3},
    lake=Inventory(1, 2, 255),
    upper="x",
)


def test_documents_round_trip():
    content = json.loads(json.dumps(to_json(FULL)))
    assert content["mappers"][1] == [
        {"topic": "old", "partition": "1-2", "from": 0, "until": 9, "estimated_bytes": 0}
    ]
    assert content["positions"] == {"old": {"1-2": 9}, "t": {"0": 5}}
    assert content["lake"] == {"files": 1, "bytes": 2, "fingerprint": f"{255:032x}"}
    assert content["upper"] == "X"
    found = from_json(Document, content)
    assert found == FULL
    assert isinstance(found.mappers[1][0].partition, Partition07)


def test_missing_and_unknown_fields_are_accepted():
    assert from_json(Document, {"run": 1, "later": 2, "lake": None}) == Document(run=1)
    assert "upper" not in to_json(Document(run=1))
    assert "lake" not in to_json(Document(run=1))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ([], r"\[\] is not an object"),
        ({}, "run is missing"),
        ({"run": "1"}, "run: '1' is not of type int"),
        ({"run": True}, "run: True is not of type int"),
        ({"run": 1, "names": "ab"}, "names: 'ab' is not of type list"),
        ({"run": 1, "positions": {"t": {"0": "x"}}}, "positions: 'x' is not of type int"),
        ({"run": 1, "positions": {"t": {"x": 1}}}, "positions: "),
        ({"run": 1, "positions": [1]}, "positions: "),
        ({"run": 1, "mappers": [[{"topic": "t", "partition": -1}]]}, "mappers: partition: -1"),
        ({"run": 1, "lake": {"fingerprint": 5}}, "lake: fingerprint: "),
    ],
)
def test_invalid_document_names_field(content, reason):
    with pytest.raises(ValueError, match=reason):
        from_json(Document, content)
