"""Look-up of plug-ins."""

import pytest

from zkbroker.errors import ConfigError
from zkbroker.producer import DefaultPartitioner, LegacyHashPartitioner, StringEncoder
from zkbroker.producer.plugins import resolve


class UpperEncoder:
    def to_bytes(self, data):
        return data.upper().encode()


class NeedsArguments:
    def __init__(self, something):
        self.something = something

    def to_bytes(self, data):
        return b""


HERE = "tests.unit.producer.test_plugins"


def test_plugins_resolve_from_objects_classes_names_and_paths():
    encoder = UpperEncoder()
    assert resolve("encoder", encoder) is encoder
    assert isinstance(resolve("encoder", UpperEncoder), UpperEncoder)
    assert isinstance(resolve("encoder", "StringEncoder"), StringEncoder)
    assert resolve("encoder", f"{HERE}:UpperEncoder").to_bytes("a") == b"A"
    assert resolve("encoder", f"{HERE}.UpperEncoder").to_bytes("a") == b"A"


def test_java_class_names_resolve():
    assert isinstance(resolve("encoder", "kafka.serializer.StringEncoder"), StringEncoder)
    old = resolve("partitioner", "kafka.producer.DefaultPartitioner")
    assert isinstance(old, LegacyHashPartitioner)
    assert isinstance(resolve("partitioner", "DefaultPartitioner"), DefaultPartitioner)


def test_entry_points_are_found_by_group_and_name(tmp_path, monkeypatch):
    info = tmp_path / "someplugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: someplugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[zkbroker.encoders]\nupper = {HERE}:UpperEncoder\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert resolve("encoder", "upper").to_bytes("b") == b"B"


def test_broken_entry_point_is_refused_with_reason(tmp_path, monkeypatch):
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[zkbroker.encoders]\nlost = no.such.module:Name\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match=r"serializer.class='lost' .*cannot be imported"):
        resolve("encoder", "lost")


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        ("encoder", "Nonsense", "zkbroker.encoders.*DefaultEncoder"),
        ("encoder", "no.such.module:Name", "cannot be imported"),
        ("encoder", f"{HERE}:Missing", "cannot be imported"),
        ("encoder", object(), "has no to_bytes"),
        ("partitioner", UpperEncoder, "partitioner.class.*has no partition"),
        ("encoder", NeedsArguments, "cannot be made"),
        ("callback_handler", object(), "before_enqueue"),
    ],
)
def test_unusable_plugin_is_refused_with_reason(kind, given, message):
    with pytest.raises(ConfigError, match=message):
        resolve(kind, given)
