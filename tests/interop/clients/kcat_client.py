"""Runs jobs with Debian's kcat; see `tests/interop/jobs.py`.

kcat writes one configuration a call and takes keys and values as text between delimiters, so its
records are written one call each, and what it reads is told by lengths.
"""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def run(job: dict[str, Any]) -> dict[str, Any]:
    return _produce(job) if job["do"] == "produce" else _consume(job)


def _kcat(job: dict[str, Any], *arguments: str, stdin: bytes = b"") -> bytes:
    return subprocess.run(
        ["kcat", "-b", job["bootstrap"], "-X", f"client.id={job['name']}", *arguments],
        input=stdin,
        capture_output=True,
        timeout=300,
        check=True,
    ).stdout


def _produce(job: dict[str, Any]) -> dict[str, Any]:
    for codec, records in job["records"].items():
        for record in records:
            arguments = ["-P", "-t", job["topics"][codec], "-p", "0", "-z", codec, "-Z"]
            for name, value in record["headers"]:
                if value is not None:
                    arguments += ["-H", f"{name}={bytes.fromhex(value).decode('latin-1')}"]
            key = b"" if record["key"] is None else bytes.fromhex(record["key"])
            value = b"" if record["value"] is None else bytes.fromhex(record["value"])
            _kcat(job, *arguments, "-K", "~~", "-D", "@@@", stdin=key + b"~~" + value)
    return {}


def _consume(job: dict[str, Any]) -> dict[str, Any]:
    def read(topic: str) -> list[dict[str, Any]]:
        data = _kcat(
            job, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q",
            "-X", "fetch.wait.max.ms=50", "-f", "%o %K %S %h\n%k%s\n",
        )  # fmt: skip
        return _records(data)

    # kcat waits most of the time, for the end of the partition.
    with ThreadPoolExecutor(4) as pool:
        return dict(zip(job["expect"], pool.map(read, job["expect"]), strict=True))


def _records(data: bytes) -> list[dict[str, Any]]:
    records = []
    while data:
        head, _, data = data.partition(b"\n")
        offset, key_size, value_size, *rest = head.split(b" ", 3)
        key, data = _take(data, int(key_size))
        value, data = _take(data, int(value_size))
        data = data[1:]
        headers = []
        for header in rest[0].split(b",") if rest and rest[0] else []:
            name, _, held = header.partition(b"=")
            headers.append([name.decode(), None if held == b"NULL" else held.hex()])
        records.append(
            {
                "offset": int(offset),
                "key": key,
                "value": value,
                "timestamp": None,
                "headers": headers,
            }
        )
    return records


def _take(data: bytes, size: int) -> tuple[str | None, bytes]:
    if size < 0:
        return None, data
    return data[:size].hex(), data[size:]
