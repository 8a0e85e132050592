"""Errors of a load, apart from a wrong configuration."""

from zkbroker.errors import ClientError


class LoadError(ClientError):
    """The load cannot go on; the message says what to change. Running it again is safe."""


class DataLoss(LoadError):
    """Offsets that were to be read are no longer (or not yet) in the log."""


class DamagedLog(LoadError):
    """An entry of a log cannot be decoded; the message names partition, offsets and reason."""


class CheckpointError(LoadError):
    """A checkpoint file is missing, damaged or of a version this release does not know."""


class AlteredCheckpoint(CheckpointError):
    """A checkpoint file is missing, damaged or not as it was written."""


class DamagedLake(CheckpointError):
    """Files of the output directory are missing or not as they were published."""


class QuarantineLimit(LoadError):
    """More records than allowed could not be parsed."""
