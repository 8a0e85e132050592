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
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("# a comment\x85b\u2028c\na=1\x0b", {"a": "1"}),
        ("a=ends with one backslash\\", {"a": "ends with one backslash"}),
    ],
)
def test_reads_what_java_reads(text, expected):
    assert parse_properties(text) == expected


def test_an_unreadable_file_is_a_config_error_that_names_it(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere\.properties"):
        load_properties(tmp_path / "nowhere.properties")


def test_reads_a_file(tmp_path):
    path = tmp_path / "server.properties"
    path.write_text("broker.id=1\n", encoding="utf-8")
    assert load_properties(path) == {"broker.id": "1"}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "iso-8859-1"])
def test_reads_what_editors_of_all_ages_saved(tmp_path, encoding):
    path = tmp_path / "server.properties"
    path.write_bytes("broker.id=1\n# für Zürich\nrack=Zürich\n".encode(encoding))
    assert load_properties(path) == {"broker.id": "1", "rack": "Zürich"}
