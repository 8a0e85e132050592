from zkbroker.protocol import BROKER_VERSIONS
from zkbroker.protocol.messages import ProduceRequest
from zkbroker.protocol.table import FieldRow, field_rows, protocol_markdown


def test_table_lists_every_api_with_versions():
    rows = protocol_markdown().partition("\n\n")[0].splitlines()[2:]
    assert [(row.split(" | ")[0], row.split(" | ")[2]) for row in rows] == [
        (f"| {key:d}", f"{low}-{high} |") for key, (low, high) in sorted(BROKER_VERSIONS.items())
    ]


def test_table_lists_fields_in_wire_order():
    assert tuple(field_rows(ProduceRequest)) == (
        FieldRow(0, "transactional_id", "string?", "3+"),
        FieldRow(0, "acks", "int16", "0+"),
        FieldRow(0, "timeout_ms", "int32", "0+"),
        FieldRow(0, "topics", "[]", "0+"),
        FieldRow(1, "topic", "string", "0+"),
        FieldRow(1, "partitions", "[]", "0+"),
        FieldRow(2, "partition", "int32", "0+"),
        FieldRow(2, "records", "records?", "0+"),
    )


def test_markdown_names_version_spans_and_nulls():
    text = protocol_markdown()
    assert "| 0 | Produce | 0-7 |" in text
    assert "| `retention_time_ms` | int64 | 2-4 |" in text
    assert "| · · `timestamp` | int64 | 1 |" in text
    assert "| `topics` | [string]? (null from 1) | 0+ |" in text
    assert "### ListGroups request\n\nNo fields." in text
