"""Buckets of S3, and of servers that speak its protocol.

    publish    a put that the server refuses when the name exists (If-None-Match)
    replace    a put
    rename     a copy, then a deletion; a copy that is there already is done again
    lock       an object that its holder renews under its ETag (If-Match); a stale one is taken over

Invariant: an object appears whole or not at all. Nothing relies on a rename, or on equal clocks of
two machines: ages are measured by the server's clock alone.
"""

import contextlib
import logging
import os
import re
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from spark_loader.storage.files import FileStatus, LockedError, OutputFile
from spark_loader.storage.table_log import BucketTableLog
from spark_loader.storage.uploads import UploadedFile, renewed
from zkbroker.errors import ConfigError

try:
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
    from obstore.store import S3Store
except ModuleNotFoundError:
    raise ConfigError("s3:// needs obstore: pip install 'zkbroker[s3]'") from None

logger = logging.getLogger(__name__)

_PREFIX = "s3://"
_LOCK_REFRESH_S = 20.0
_LOCK_STALE_S = 120.0
# Where a machine of Amazon's gets its role, if no credentials are given.
_METADATA = "169.254.169.254"
_RETRY_FOR = timedelta(seconds=60)
_OPTIONS = frozenset(
    {
        "aws_access_key_id",
        "aws_secret_access_key",
        "aws_session_token",
        "aws_region",
        "aws_endpoint_url",
        "aws_virtual_hosted_style_request",
        "aws_skip_signature",
        "aws_unsigned_payload",
        "aws_request_payer",
        "aws_server_side_encryption",
        "aws_sse_kms_key_id",
        "aws_sse_bucket_key_enabled",
    }
)
# The names that Amazon's own tools give to the same settings.
_ALSO = {"aws_default_region": "aws_region", "aws_endpoint_url_s3": "aws_endpoint_url"}


def s3_settings(given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of S3: those of the environment, overridden by those given.

    Args:
        given: names as in the environment, in any case: `AWS_ENDPOINT_URL`.

    Raises:
        ConfigError: one of those given is not known.
    """
    settings: dict[str, str] = {}
    for name in (*_ALSO, *sorted(_OPTIONS)):
        if value := os.environ.get(name.upper()):
            settings[_ALSO.get(name, name)] = value
    for key, value in given.items():
        name = key.strip().lower()
        name = _ALSO.get(name, name)
        if name not in _OPTIONS:
            known = ", ".join(sorted(each.upper() for each in _OPTIONS))
            raise ConfigError(f"storage option {key} is not known: give {known}")
        settings[name] = value
    return settings


@dataclass(frozen=True, slots=True)
class S3FileSystem:
    """A bucket; picklable, connected at first use in each process.

    Attributes:
        bucket: its name.
        settings: as `s3_settings` returns them; without credentials each machine finds its own, by
            its role.
    """

    bucket: str
    # Credentials are among them.
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, uri: str, given: Mapping[str, str]) -> "S3FileSystem":
        """Return the bucket of a URI.

        Raises:
            ConfigError: there is none in it, or a setting is not known.
        """
        bucket = uri.removeprefix(_PREFIX).partition("/")[0]
        if not bucket:
            raise ConfigError(f"{uri} names no bucket: give s3://BUCKET/DIRECTORY")
        return cls(bucket, s3_settings(given))

    def create(self, path: str) -> OutputFile:
        return UploadedFile(lambda local: self.upload(local, path))

    def publish(self, path: str, data: bytes) -> bool:
        with _errors(path):
            try:
                obstore.put(self._store, self._key(path), data, mode="create")
            except AlreadyExistsError:
                # A put whose answer was lost is repeated, and then finds its own object.
                return self.read(path) == data
        return True

    def replace(self, path: str, data: bytes) -> None:
        with _errors(path):
            obstore.put(self._store, self._key(path), data)

    def upload(self, local: Path, path: str) -> None:
        """Copy a local file there, over an older one; a large one in parts."""
        with _errors(path):
            obstore.put(self._store, self._key(path), local)

    def read(self, path: str) -> bytes:
        with _errors(path):
            return bytes(obstore.get(self._store, self._key(path)).bytes())

    @contextlib.contextmanager
    def opened(self, path: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="zkbroker-load-") as directory:
            local = Path(directory) / Path(path).name
            with _errors(path), local.open("wb") as file:
                for chunk in obstore.get(self._store, self._key(path)).stream():
                    file.write(chunk)
            yield local

    def size(self, path: str) -> int | None:
        try:
            return int(self._head(path)["size"])
        except FileNotFoundError:
            return None

    def rename(self, source: str, target: str) -> None:
        try:
            with _errors(source):
                obstore.copy(self._store, self._key(source), self._key(target))
        except FileNotFoundError:
            if self.size(target) is None:
                raise
            return
        self.delete(source)

    def delete(self, path: str) -> None:
        with _errors(path), contextlib.suppress(FileNotFoundError):
            obstore.delete(self._store, self._key(path))

    def names(self, path: str) -> list[str]:
        with _errors(path):
            found = obstore.list_with_delimiter(self._store, self._key(path))
            paths = [*found["common_prefixes"], *(each["path"] for each in found["objects"])]
        return sorted(each.rpartition("/")[2] for each in paths)

    def walk(self, path: str) -> Iterator[FileStatus]:
        above = len(self._key(path)) + 1
        with _errors(path):
            for chunk in obstore.list(self._store, self._key(path)):
                for each in chunk:
                    yield FileStatus(each["path"][above:], each["size"])

    @contextlib.contextmanager
    def lock(self, path: str, owner: str) -> Iterator[None]:
        """Hold a lock object that is renewed while this process lives."""
        lease = _Lease(self, path, owner)
        lease.take()
        try:
            with renewed(lease.renew, _LOCK_REFRESH_S):
                yield
        finally:
            lease.release()

    def table_log(self, output: str) -> BucketTableLog:
        """Return the log in the bucket; the library writes it by the same kind of puts."""
        return BucketTableLog(output, self.settings)

    def put_if(self, path: str, data: bytes, e_tag: str | None) -> str | None:
        """Replace the object with this ETag; None to create an object.

        Returns:
            the new ETag; None when the present object is not that one.
        """
        mode: Any = "create" if e_tag is None else {"e_tag": e_tag}
        with _errors(path):
            try:
                return obstore.put(self._store, self._key(path), data, mode=mode)["e_tag"]
            except (AlreadyExistsError, PreconditionError, FileNotFoundError):
                return None

    def state(self, path: str) -> tuple[str, datetime]:
        """Return the ETag of an object and the time of its put, by the server's clock.

        Raises:
            FileNotFoundError: there is none.
        """
        found = self._head(path)
        return str(found["e_tag"]), found["last_modified"]

    def _head(self, path: str) -> Any:
        with _errors(path):
            return obstore.head(self._store, self._key(path))

    @property
    def _store(self) -> Any:
        return _store(self.bucket, tuple(sorted(self.settings.items())), os.getpid())

    def _key(self, path: str) -> str:
        return path.removeprefix(f"{_PREFIX}{self.bucket}").strip("/")


@cache
def _store(bucket: str, settings: tuple[tuple[str, str], ...], process: int) -> Any:
    """Return the connections to a bucket; each process has its own."""
    options: Any = dict(settings)
    plain = options.get("aws_endpoint_url", "").startswith("http://")
    return S3Store(
        bucket,
        config=options,
        client_options={"allow_http": plain},
        retry_config={"max_retries": 6, "retry_timeout": _RETRY_FOR},
    )


class _Lease:
    """One holder's claim on a lock object."""

    def __init__(self, filesystem: S3FileSystem, path: str, owner: str) -> None:
        self._fs = filesystem
        self._path = path
        self._owner = owner
        self._e_tag: str | None = None

    def take(self) -> None:
        """Take the lock.

        Raises:
            LockedError: another holds it.
        """
        self._e_tag = self._fs.put_if(self._path, self._content(), None)
        if self._e_tag is None:
            self._e_tag = self._fs.put_if(self._path, self._content(), self._stale())
        if self._e_tag is None:
            raise LockedError(f"{self._path} was taken by another a moment ago")

    def renew(self) -> bool:
        """Renew the lock; return whether it is still held."""
        try:
            renewed = self._fs.put_if(self._path, self._content(), self._e_tag)
        except OSError as error:
            logger.warning("lock not renewed path=%s error=%s", self._path, error)
            return True
        if renewed is None:
            # The commits of the two holders conflict, and one is refused.
            logger.error("lock lost path=%s", self._path)
            return False
        self._e_tag = renewed
        return True

    def release(self) -> None:
        """Give the lock back unless another has taken it."""
        with contextlib.suppress(FileNotFoundError):
            if self._fs.state(self._path)[0] == self._e_tag:
                self._fs.delete(self._path)

    def _stale(self) -> str:
        """Return the ETag of a dead holder's lock.

        Raises:
            LockedError: its holder is alive.
        """
        try:
            e_tag, renewed = self._fs.state(self._path)
            held_by = self._fs.read(self._path).decode().partition("\n")[0]
        except FileNotFoundError:
            raise LockedError(f"{self._path} was given back a moment ago: try again") from None
        if (self._server_time() - renewed).total_seconds() < _LOCK_STALE_S:
            raise LockedError(
                f"{self._path} is held by {held_by}; a dead one's is free in 2 minutes"
            )
        return e_tag

    def _server_time(self) -> datetime:
        probe = f"{self._path}.{uuid.uuid4().hex[:8]}.time"
        self._fs.replace(probe, b"")
        try:
            return self._fs.state(probe)[1]
        finally:
            self._fs.delete(probe)

    def _content(self) -> bytes:
        # The content differs each time, since equal content has an equal ETag.
        return f"{self._owner}\n{uuid.uuid4().hex}\n".encode()


@contextlib.contextmanager
def _errors(path: str) -> Iterator[None]:
    """Turn errors of the server or the network into an OSError of one line."""
    try:
        yield
    except (FileNotFoundError, BaseError) as error:
        text = str(error)
        # A missing bucket is not an empty directory.
        if isinstance(error, FileNotFoundError) and "NoSuchBucket" not in text:
            raise FileNotFoundError(path) from None
        raise OSError(f"{path}: {_one_line(text)}") from None


def _one_line(text: str) -> str:
    """Return an error's text for people, in one line: the server's own words, if any."""
    if _METADATA in text:
        return (
            "no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, in the "
            "environment or as storage options, or run on a machine with a role"
        )
    answer = re.search(r"<Code>(.*?)</Code>.*?<Message>(.*?)</Message>", text, re.DOTALL)
    if answer:
        return f"{answer[1]}: {answer[2]}"
    return next(
        (line.strip()[:500] for line in text.splitlines() if line.strip()), "no reason given"
    )
