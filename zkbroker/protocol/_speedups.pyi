from zkbroker.protocol.plain.portable import fetch_answer as fetch_answer
from zkbroker.protocol.plain.portable import produce_answer as produce_answer
from zkbroker.protocol.plain.portable import read_plain as read_plain
