from zkbroker.protocol import BROKER_VERSIONS
from zkbroker.protocol.table import FieldRow, protocol_markdown, protocol_table


def test_table_lists_every_api_with_versions():
    assert [(r.api_key, r.min_version, r.max_version) for r in protocol_table()] == [
        (key, *versions) for key, versions in sorted(BROKER_VERSIONS.items())
    ]


def test_table_lists_fields_in_wire_order():
    produce = protocol_table()[0]
    assert produce.request == (
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
