"""Private files are private from their creation, whatever the umask; existing ones are reported."""

import os
import stat

import pytest

from zkbroker.private_files import (
    make_private_directory,
    open_private,
    warn_of_wide_rights,
    write_private,
)


@pytest.fixture(autouse=True)
def open_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def rights(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_new_files_are_accessible_only_to_the_owner(tmp_path):
    directory = tmp_path / "a" / "b"
    make_private_directory(directory)
    write_private(directory / "one", b"1")
    with open_private(directory / "log", os.O_APPEND) as log:
        log.write(b"line")
    assert [rights(tmp_path / "a"), rights(directory)] == [0o700, 0o700]
    assert [rights(directory / "one"), rights(directory / "log")] == [0o600, 0o600]
    assert (directory / "one").read_bytes() == b"1"


def test_existing_rights_are_kept_and_warned_of(tmp_path, caplog):
    directory = tmp_path / "wide"
    directory.mkdir(0o755)
    (directory / "file").write_bytes(b"long")
    make_private_directory(directory)
    write_private(directory / "file", b"new")
    assert rights(directory) == 0o755
    assert rights(directory / "file") == 0o666
    assert (directory / "file").read_bytes() == b"new"
    warn_of_wide_rights(directory)
    warn_of_wide_rights(tmp_path)
    (message,) = caplog.messages
    assert message == (
        f"directory open to other users path={directory} rights=drwxr-xr-x: "
        f"chmod go-rwx {directory} closes it"
    )


def test_existing_name_is_refused(tmp_path):
    (tmp_path / "taken").write_bytes(b"")
    with pytest.raises(FileExistsError):
        make_private_directory(tmp_path / "taken")
    with pytest.raises(FileExistsError):
        write_private(tmp_path / "taken", b"", os.O_EXCL)
