from collections.abc import Sequence

from zkbroker.protocol.plain.requests import (
    FetchAnswerRow,
    PlainFetch,
    PlainProduce,
    ProduceAnswerRow,
)

def read_plain(frame: memoryview, max_items: int) -> PlainProduce | PlainFetch | None: ...
def produce_answer(
    version: int,
    correlation_id: int,
    topics: Sequence[tuple[str, Sequence[ProduceAnswerRow]]],
) -> list[bytes]: ...
def fetch_answer(
    version: int,
    correlation_id: int,
    session_id: int,
    topics: Sequence[tuple[str, Sequence[FetchAnswerRow]]],
) -> list[bytes]: ...
