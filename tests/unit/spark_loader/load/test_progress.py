"""Counts of mappers are summed, and invalid datagrams are ignored."""

import json
import socket
import threading

from spark_loader.load.progress import ProgressListener

WAIT_S = 20


def test_listener_sums_latest_counts_of_own_run():
    reports, seen = [], threading.Event()

    def callback(progress):
        reports.append(progress)
        if progress.mappers_done == 2:
            seen.set()

    listener = ProgressListener("127.0.0.1", 7, 100, 120, 2, callback, 0)
    listener.start()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mapper:
        for message in (
            b"nonsense",
            b"[1]",
            json.dumps([6, 0, 999, 9, True]).encode(),
            json.dumps([7, 0, 10, 100, False]).encode(),
            json.dumps([7, 0, 30, 300, True]).encode(),
            json.dumps([7, 1, 5, 50, True]).encode(),
        ):
            mapper.sendto(message, listener.address)
        assert seen.wait(WAIT_S)
    listener.close()
    assert [each.rows for each in reports] == [10, 30, 35]
    last = listener.progress("done")
    assert (last.stage, last.rows, last.bytes, last.lag) == ("done", 35, 350, 85)
    assert (last.mappers_done, last.mappers, last.planned_rows) == (2, 2, 100)
