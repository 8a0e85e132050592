"""Files are uploaded when complete; locks are renewed in the background."""

import threading

from spark_loader.storage.uploads import UploadedFile, renewed


def test_file_is_uploaded_once_on_commit():
    uploaded = []
    file = UploadedFile(lambda local: uploaded.append(local.read_bytes()))
    file.write(b"ab")
    file.write(b"c")
    assert uploaded == []
    for _ in range(2):
        file.commit()
    file.discard()
    assert uploaded == [b"abc"]


def test_discarded_file_is_not_uploaded():
    file = UploadedFile(lambda local: (_ for _ in ()).throw(AssertionError))
    file.write(b"ab")
    for _ in range(2):
        file.discard()
    file.commit()


def test_lock_is_renewed_until_lost_or_released():
    calls, lost = [], threading.Event()

    def renew():
        calls.append(1)
        if len(calls) == 3:
            lost.set()
        return len(calls) < 3

    with renewed(renew, 0.001):
        assert lost.wait(60)
    assert len(calls) == 3
    with renewed(lambda: True, 3600):
        pass
