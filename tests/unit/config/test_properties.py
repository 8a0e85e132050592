import pytest

from zkbroker.config import load_properties, parse_properties
from zkbroker.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a = b", {"a": "b"}),
        ("a: b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a", {"a": ""}),
        ("  a=b  ", {"a": "b"}),
        ("# a=b\n! c=d\n\n", {}),
        ("a=one,\\\n   two", {"a": "one,two"}),
        ("a=1\na=2", {"a": "2"}),
        ("k\\:1=x\\=y", {"k:1": "x=y"}),
        ("path=C\\:\\\\kafka\\\\logs", {"path": "C:\\kafka\\logs"}),
        ("zk=h1:2181,h2:2181/chroot", {"zk": "h1:2181,h2:2181/chroot"}),
        ("u=\\u00fc\\t.", {"u": "ü\t."}),
        ("u=\\ud83d\\ude00.", {"u": "\U0001f600."}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("# a comment\x85b\u2028c\na=1\x0b", {"a": "1"}),
        ("a=ends with one backslash\\", {"a": "ends with one backslash"}),
    ],
)
def test_properties_are_parsed_as_in_java(text, expected):
    assert parse_properties(text) == expected


def test_unreadable_file_is_refused_with_path(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere\.properties"):
        load_properties(tmp_path / "nowhere.properties")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "iso-8859-1"])
def test_file_is_read_in_its_encoding(tmp_path, encoding):
    path = tmp_path / "server.properties"
    path.write_bytes("broker.id=1\n# für Zürich\nrack=Zürich\n".encode(encoding))
    assert load_properties(path) == {"broker.id": "1", "rack": "Zürich"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<html>\n", r"line 1 of .*server\.properties cannot be read: '<html>' is not a name"),
        ('# fine\nbroker.id=1\n{"port": 1}\n', "line 3 .* is not a name"),
        ("a=1\nb=one,\\\n  two\n=x\n", "line 4 .* '' is not a name"),
        ("[broker]\nid=1", "line 1 .* is not a name"),
        ("a=1\nx=\x00\x7fELF", "line 2 .* control characters"),
        ("a=1\nx=\\u12g4", "line 2 .* four hexadecimal digits"),
        ("a=1\nx=\\ud83d.", "line 2 .* half a character"),
        ("PK\x03\x04", "line 1 .* control characters"),
    ],
)
def test_invalid_line_is_refused_with_number(tmp_path, text, problem):
    path = tmp_path / "server.properties"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=problem):
        load_properties(path)


@pytest.mark.parametrize(
    "text",
    [
        "a=C:\\\\users",
        "log4j.logger.kafka.network.Processor$=INFO",
        "listener.name.sasl_ssl.scram-sha-256.jaas=x y;",
        "k\\:1=x",
        "broker.id",
        "a\tb",
    ],
)
def test_unusual_valid_lines_are_read(tmp_path, text):
    path = tmp_path / "server.properties"
    path.write_text(text, encoding="utf-8")
    assert load_properties(path) == parse_properties(text)
