import socket

from tests.support.fake_broker import FakeCluster
from zkbroker.admin import doctor
from zkbroker.errors import RegistryError


def test_healthy_machine_passes_every_check(tmp_path):
    findings = doctor.diagnose(data=tmp_path / "not" / "yet")
    checks = {finding.check: finding for finding in findings}
    assert set(checks) == {
        "Python",
        "Java",
        "ZooKeeper jars",
        "open files",
        "data directory",
        "disk space",
    }
    for check in ("Python", "Java", "ZooKeeper jars", "data directory"):
        assert checks[check].ok, checks[check]
        assert checks[check].cure == ""
    assert list(tmp_path.iterdir()) == []


def test_port_in_use_is_reported():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        finding = doctor.check_port(port)
    assert not finding.ok
    assert str(port) in finding.check
    assert finding.found == "cannot be listened on: Address already in use"
    assert "another port" in finding.cure
    assert doctor.check_port(port).ok


def test_unwritable_data_directory_is_reported(tmp_path, monkeypatch):
    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(doctor.tempfile, "NamedTemporaryFile", refuse)
    finding = doctor.check_data_directory(tmp_path / "data")
    assert not finding.ok
    assert "Permission denied" in finding.found
    assert "chown" in finding.cure


def test_file_as_data_directory_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    finding = doctor.check_data_directory(tmp_path / "file")
    assert not finding.ok
    assert "log.dirs" in finding.cure


def test_missing_java_has_install_hint(monkeypatch):
    def missing():
        raise RegistryError("no java was found")

    monkeypatch.setattr(doctor, "require_java", missing)
    finding = doctor.check_java()
    assert (finding.ok, finding.found) == (False, "no java was found")
    assert "openjdk-17" in finding.cure


def test_low_disk_space_and_open_file_limit_are_reported(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "MIN_FREE_BYTES", 1 << 60)
    monkeypatch.setattr(doctor, "MIN_OPEN_FILES", 1 << 40)
    assert not doctor.check_disk_space(tmp_path).ok
    assert "limits.conf" in doctor.check_open_files().cure


def test_brokers_are_checked_at_advertised_addresses():
    with FakeCluster(2) as fake:
        found = doctor.check_brokers(fake.addresses)
        assert [(each.check, each.ok) for each in found] == [
            ("brokers", True),
            ("broker 0", True),
            ("broker 1", True),
        ]
        assert (
            "brokers: 0, 1; the controller is 0; give -z to check ZooKeeper too" in found[0].found
        )
        assert found[1].found == f"{fake.brokers[0].address} answers"
        away = fake.brokers[1].address
        fake.brokers[1].stop()
        _, _, gone = doctor.check_brokers(fake.brokers[0].address)
    assert not gone.ok
    assert gone.cure.endswith(f"it advertises {away}")
    (silent,) = doctor.check_brokers("127.0.0.1:1")
    assert (silent.check, silent.ok) == ("brokers", False)
    assert "correct the addresses" in silent.cure
