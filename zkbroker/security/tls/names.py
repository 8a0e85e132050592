"""The subject of a certificate as text: RFC 2253, as Java's clients and brokers write it.

    CN=alice,OU=payments,O=example,C=DE          the last relative name first, no blanks

Invariant: equal to `X500Principal.getName()`: types that RFC 2253 names have their keyword, others
(an e-mail address) their number, with `#` and the hexadecimal bytes of the encoded value.
"""

from collections.abc import Iterator

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_ENCODINGS = {
    0x0C: "utf-8",
    0x13: "ascii",  # PrintableString
    0x14: "latin-1",  # T61String, as Java reads it
    0x16: "ascii",  # IA5String
    0x1B: "ascii",  # GeneralString
    0x1E: "utf-16-be",  # BMPString
}
_ESCAPED = frozenset(',=+<>#;"\\')
_EXPLICIT_VERSION = 0xA0


class BadCertificate(ValueError):
    """The bytes are no certificate."""


def subject_name(certificate: bytes) -> str:
    """Return the subject of a certificate.

    Args:
        certificate: encoded as DER.

    Raises:
        BadCertificate: it is none.
    """
    try:
        outer = next(_items(certificate))[1]
        signed = next(_items(outer))[1]
        fields = [item for item in _items(signed) if item[0] != _EXPLICIT_VERSION]
        # Serial number, signature, issuer, validity, subject.
        names = [_relative(content) for _, content, _ in _items(fields[4][1])]
        return ",".join(reversed(names))
    except (IndexError, StopIteration, UnicodeDecodeError, RuntimeError) as error:
        raise BadCertificate("the bytes are no certificate") from error


def _relative(content: memoryview | bytes) -> str:
    parts = []
    for _, pair, _ in _items(content):
        (_, kind, _), (tag, value, whole) = list(_items(pair))[:2]
        parts.append(_pair(_number(bytes(kind)), tag, bytes(value), bytes(whole)))
    return "+".join(parts)


def _pair(kind: str, tag: int, value: bytes, whole: bytes) -> str:
    keyword, encoding = _KEYWORDS.get(kind), _ENCODINGS.get(tag)
    if keyword is None or encoding is None:
        return f"{keyword or kind}=#{whole.hex()}"
    return f"{keyword}={_escape(value.decode(encoding))}"


def _escape(text: str) -> str:
    escaped = "".join(
        "\\00" if each == "\0" else f"\\{each}" if each in _ESCAPED else each for each in text
    )
    leading = len(text) - len(text.lstrip(" "))
    trailing = len(text) - len(text.rstrip(" ")) if leading < len(text) else 0
    body = escaped[leading : len(escaped) - trailing]
    return "\\ " * leading + body + "\\ " * trailing


def _number(content: bytes) -> str:
    """Return an object identifier in dotted form."""
    parts: list[int] = []
    value = 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            parts.append(value)
            value = 0
    first = min(parts[0] // 40, 2)
    return ".".join(map(str, (first, parts[0] - 40 * first, *parts[1:])))


def _items(data: bytes | memoryview) -> Iterator[tuple[int, memoryview, memoryview]]:
    """Yield tag, content and whole encoding of each element of a DER sequence."""
    view = memoryview(data)
    position = 0
    while position < len(view):
        start = position
        tag, length = view[position], view[position + 1]
        position += 2
        if length & 0x80:
            count = length & 0x7F
            if not 1 <= count <= 4:
                raise IndexError
            length = int.from_bytes(view[position : position + count], "big")
            position += count
        if position + length > len(view):
            raise IndexError
        yield tag, view[position : position + length], view[start : position + length]
        position += length
