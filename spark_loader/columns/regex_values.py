"""Lines → typed columns, by the named groups of a regex.

The syntax is that of RE2, which Arrow uses: time is linear in the line, whatever the pattern.

Invariant: a group that took no part in the match, or matched the empty text, is null.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from spark_loader.columns.converter import Converted
from spark_loader.columns.texts import from_texts
from spark_loader.columns.types import Column
from zkbroker.errors import ConfigError

ACCESS_LOG_PATTERN = (
    r"^(?P<host>\S+) \S+ (?:-|(?P<user>\S+)) \[(?P<time>[^\]]+)\] "
    r'"(?P<method>[^ "]*) ?(?P<path>[^ "]*)(?: (?P<protocol>[^"]*))?" '
    r'(?P<status>\d{3}) (?:-|(?P<bytes>\d+))(?: "(?:-|(?P<referer>[^"]*))" "(?P<agent>.*)")?'
)
ACCESS_LOG_TYPES = "time:timestamp[%d/%b/%Y:%H:%M:%S %z],status:int,bytes:long"


class RegexValues:
    """Converts lines; see `Converter`.

    Args:
        pattern: of RE2, searched in the line.
        columns: whose paths are its groups.
        zone: for times without one.
    """

    # Times repeat within a second, and each distinct text is parsed once.
    piece_rows = 65_536

    def __init__(self, pattern: str, columns: Sequence[Column], zone: str) -> None:
        self._pattern = pattern
        self._columns = columns
        self._zone = zone

    def convert(self, values: pa.Array) -> Converted:
        found = pc.extract_regex(values, self._pattern)
        missing = pc.indices_nonzero(pc.is_null(found)).to_pylist() if found.null_count else []
        bad = dict.fromkeys(missing, "the columns' regex does not match")
        return [self._column(found, each) for each in self._columns], bad

    def _column(self, found: pa.Array, column: Column) -> pa.Array:
        groups = pc.struct_field(found, column.path)
        empty = pc.equal(pc.binary_length(groups), 0)
        if pc.any(empty).as_py():
            groups = pc.if_else(empty, pa.scalar(None, groups.type), groups)
        try:
            if pa.types.is_binary(column.type):
                return groups
            return from_texts(groups.cast(pa.string()), column, self._zone)
        except pa.ArrowInvalid as error:
            raise pa.ArrowInvalid(f"group {column.path[0]}: {error}") from None


def groups_of(pattern: str, option: str) -> list[str]:
    """Return the names of a pattern's groups, in order.

    Raises:
        ConfigError: it is not RE2 syntax, or not all of its groups have names.
    """
    try:
        found = pc.extract_regex(pa.array([b""], pa.binary()), pattern)
    except pa.ArrowInvalid as error:
        raise ConfigError(
            f"{option} {pattern!r}: {error}; the syntax is RE2's, and each group has a name, "
            "(?P<NAME>…), or is none, (?:…)"
        ) from None
    names = [field.name for field in found.type]
    if not names:
        raise ConfigError(f"{option} {pattern!r} has no named group: write (?P<NAME>…)")
    return names
