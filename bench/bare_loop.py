"""The least that a gevent server can do with a request, for comparison in `bench.broker`.

Requests are the broker's own, and their key selects the work:

    Produce  receive, CRC-32C of all of it, write to a file, short answer
    Fetch    answer a header and 1 MiB of a file by os.sendfile

Its argument is a file to write to; it prints its port.
"""

import itertools
import os
import socket
import sys

import gevent
import gevent.socket
from crc32c import crc32c

FETCH_BYTES = 1 << 20


def receive_exactly(connection: gevent.socket.socket, view: memoryview) -> bool:
    at = 0
    while at < len(view):
        count = connection.recv_into(view[at:])
        if not count:
            return False
        at += count
    return True


def serve(connection: gevent.socket.socket, path: str, read: int) -> None:
    # Each run has its own file, like a topic of the broker.
    out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        answer_requests(connection, out, read)
    finally:
        os.close(out)
        os.unlink(path)


def answer_requests(connection: gevent.socket.socket, out: int, read: int) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    prefix = bytearray(4)
    answer = (30).to_bytes(4, "big") + bytes(30)
    while receive_exactly(connection, memoryview(prefix)):
        body = bytearray(int.from_bytes(prefix, "big"))
        if not receive_exactly(connection, memoryview(body)):
            return
        if body[1] == 0:
            crc32c(body)
            os.write(out, body)
            connection.sendall(answer)
        else:
            connection.sendall((FETCH_BYTES + 4).to_bytes(4, "big") + bytes(4), socket.MSG_MORE)
            send_file(connection, read)


def send_file(connection: gevent.socket.socket, read: int) -> None:
    at = 0
    while at < FETCH_BYTES:
        try:
            at += os.sendfile(connection.fileno(), read, at, FETCH_BYTES - at)
        except BlockingIOError:
            gevent.socket.wait_write(connection.fileno())


def main() -> None:
    path = sys.argv[1]
    source = path + ".source"
    with open(source, "wb") as file:
        file.write(os.urandom(FETCH_BYTES))
    read = os.open(source, os.O_RDONLY)
    listening = gevent.socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    print(listening.getsockname()[1], flush=True)
    for number in itertools.count():
        connection, _ = listening.accept()
        gevent.spawn(serve, connection, f"{path}-{number}", read)


if __name__ == "__main__":
    main()
