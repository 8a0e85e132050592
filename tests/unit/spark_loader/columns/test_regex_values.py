"""Lines of an access log become columns."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from spark_loader.columns.regex_values import groups_of
from spark_loader.columns.spec import ValueColumns
from zkbroker.errors import ConfigError

COMBINED = (
    b'83.149.9.216 - frank [17/May/2015:10:05:03 +0200] "GET /a?b=c HTTP/1.1" 200 203023 '
    b'"http://example.com/" "Mozilla/5.0 (a \\"quoted\\" word)"'
)


def rows(*lines):
    columns = ValueColumns.access_log()
    batch = pa.RecordBatch.from_pydict({"value": pa.array(lines, pa.binary())})
    found, reasons = columns.rows().add(batch)
    assert reasons == {}
    return found.drop_columns(["value"]).to_pylist()


def test_access_log_formats_are_parsed():
    combined, common, odd = rows(
        COMBINED,
        b'::1 - - [17/May/2015:10:05:03 +0000] "POST / HTTP/1.0" 304 -',
        b'h - - [17/May/2015:10:05:03 +0000] "-" 408 0 "-" "-"',
    )
    assert combined == {
        "host": "83.149.9.216",
        "user": "frank",
        "time": datetime(2015, 5, 17, 8, 5, 3, tzinfo=UTC),
        "method": "GET",
        "path": "/a?b=c",
        "protocol": "HTTP/1.1",
        "status": 200,
        "bytes": 203023,
        "referer": "http://example.com/",
        "agent": 'Mozilla/5.0 (a \\"quoted\\" word)',
    }
    assert (common["method"], common["bytes"], common["user"], common["agent"]) == (
        "POST", None, None, None,
    )  # fmt: skip
    assert (odd["status"], odd["bytes"], odd["path"], odd["referer"]) == (408, 0, None, None)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(?P<a>x", "missing"),
        ("(x)", "has a name"),
        ("x", "no named group"),
        (r"(?P<a>x)(?=y)", "RE2"),
    ],
)
def test_invalid_patterns_are_refused(pattern, message):
    with pytest.raises(ConfigError, match=message):
        groups_of(pattern, "--columns-regex")


def test_type_of_unknown_group_is_refused():
    with pytest.raises(ConfigError, match="no group b; it has a"):
        ValueColumns.regex("(?P<a>x)", "b:int")
