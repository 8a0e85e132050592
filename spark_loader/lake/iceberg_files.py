"""An Iceberg table without a catalog server: each commit creates a file name that is used once.

    metadata/v12.metadata.json    the table after its 12th commit
    metadata/version-hint.text    12, for readers that open the directory

Invariant: a commit counts once its metadata file has its name; of two writers of the same version
the later is refused, as on every file system of a lake. The files that it names are durable before.
After a crash the hint may name an older version, but always one that was committed.
"""

import io
from typing import Any

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata

from spark_loader.lake.table_files import metadata_version
from spark_loader.storage.files import LakeFileSystem, join

METADATA = "metadata"
HINT = "version-hint.text"


class LakeFileIO(FileIO):
    """Lets the library read and write manifests through the file system of a lake."""

    def __init__(self, filesystem: LakeFileSystem) -> None:
        super().__init__()
        self._fs = filesystem

    def new_input(self, location: str) -> InputFile:
        return _Input(self._fs, location)

    def new_output(self, location: str) -> OutputFile:
        return _Output(self._fs, location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self._fs.delete(location if isinstance(location, str) else location.location)


class _Input(InputFile):
    def __init__(self, filesystem: LakeFileSystem, location: str) -> None:
        super().__init__(location)
        self._fs = filesystem

    def __len__(self) -> int:
        size = self._fs.size(self.location)
        if size is None:
            raise FileNotFoundError(self.location)
        return size

    def exists(self) -> bool:
        return self._fs.size(self.location) is not None

    def open(self, seekable: bool = True) -> Any:
        return io.BytesIO(self._fs.read(self.location))


class _Output(OutputFile):
    def __init__(self, filesystem: LakeFileSystem, location: str) -> None:
        super().__init__(location)
        self._fs = filesystem

    def __len__(self) -> int:
        return len(self.to_input_file())

    def exists(self) -> bool:
        return self.to_input_file().exists()

    def to_input_file(self) -> InputFile:
        return _Input(self._fs, self.location)

    def create(self, overwrite: bool = False) -> Any:
        return _Stream(self._fs, self.location)


class _Stream(io.BytesIO):
    """A small file that is written at once, durably, when it is closed."""

    def __init__(self, filesystem: LakeFileSystem, location: str) -> None:
        super().__init__()
        self._fs = filesystem
        self._location = location

    def close(self) -> None:
        if not self.closed:
            self._fs.replace(self._location, self.getvalue())
        super().close()


class FileCatalog(NoopCatalog):
    """The catalog of the one table in a directory."""

    def __init__(self, filesystem: LakeFileSystem, output: str) -> None:
        super().__init__("zkbroker")
        self._fs = filesystem
        self._output = output
        self._io = LakeFileIO(filesystem)

    def newest(self) -> int:
        """Return the number of the last commit, 0 where there is none."""
        names = self._fs.names(join(self._output, METADATA))
        return max(map(metadata_version, names), default=0)

    def read(self, version: int) -> Table:
        """Return the table after a commit.

        Raises:
            ValueError, OSError: its metadata cannot be read.
        """
        path = self._path(version)
        metadata = TableMetadataUtil.parse_raw(self._fs.read(path).decode())
        return Table(("lake",), metadata, path, self._io, self)

    def begin(self, metadata: TableMetadata) -> None:
        """Make a table unless there is one."""
        self._publish(1, metadata)

    def commit_table(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse:
        """Commit on top of exactly the version that a table was read at."""
        version = metadata_version(table.metadata_location.rpartition("/")[2]) + 1
        for requirement in requirements:
            requirement.validate(table.metadata)
        metadata = update_table_metadata(
            table.metadata, updates, metadata_location=table.metadata_location
        )
        if not self._publish(version, metadata):
            raise CommitFailedException(f"version {version} is taken")
        return CommitTableResponse(metadata=metadata, **{"metadata-location": self._path(version)})

    def hint(self) -> None:
        """Let the hint name the newest version."""
        path = join(self._output, METADATA, HINT)
        version = self.newest()
        while version:
            text = str(version).encode()
            if self._fs.size(path) is None or self._fs.read(path) != text:
                self._fs.replace(path, text)
            # Repeated, since the slower of two writers would leave the older number.
            last, version = version, self.newest()
            if version == last:
                return

    def _publish(self, version: int, metadata: TableMetadata) -> bool:
        data = metadata.model_dump_json(exclude_none=True).encode()
        published = self._fs.publish(self._path(version), data)
        self.hint()
        return published

    def _path(self, version: int) -> str:
        return join(self._output, METADATA, f"v{version}.metadata.json")
