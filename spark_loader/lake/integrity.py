"""Whether a directory holds what its last manifest says: by names and lengths, at each load.

    manifests: listed, against `earlier` of the last one and the plans that were published
    files:     listed, against `lake` of the last one

Invariant: nothing is read but the last manifest and directory listings as long as they agree;
manifests are read only to say what is wrong. Contents are the business of `verify`. Files of a run
that was stopped half published, and those a manifest withdrew a moment ago, are no damage.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from spark_loader.errors import AlteredCheckpoint, DamagedLake
from spark_loader.lake.checkpoint import Checkpoints, manifest_name
from spark_loader.lake.contents import data_files, named_by_loader, quarantine_files
from spark_loader.lake.inventory import Inventory
from spark_loader.lake.ledger import DataFile, Manifest, live
from spark_loader.lake.recover import unfinished_replay
from spark_loader.reading.positions import TopicPartition
from spark_loader.storage.files import LakeFileSystem

_SHOWN = 10


@dataclass(slots=True)
class Damage:
    """What is wrong with a directory.

    Attributes:
        checkpoints: manifests that are missing or altered, each a sentence.
        files: files missing or of another length, each a sentence.
        unknown: data files that no manifest names, each a sentence.
        first_lost: of each partition with a damaged file, the first offset in one.
    """

    checkpoints: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    first_lost: dict[TopicPartition, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.checkpoints or self.files or self.unknown)


def require_whole(checkpoints: Checkpoints, filesystem: LakeFileSystem) -> None:
    """Check that a load may go on from what its checkpoints say.

    Raises:
        DamagedLake: files or checkpoints are missing or altered; the message names them and says
            what can be done.
    """
    damage = find_damage(checkpoints, filesystem)
    if damage:
        raise DamagedLake(describe(damage, checkpoints.output))


def find_damage(checkpoints: Checkpoints, filesystem: LakeFileSystem) -> Damage:
    """Compare names and lengths with the last manifest's account."""
    damage = Damage(checkpoints=missing_manifests(checkpoints, filesystem))
    if damage.checkpoints:
        # What files there should be is not known, then.
        return damage
    latest = checkpoints.latest()
    there = dict(_there(checkpoints, filesystem, latest))
    if latest is None:
        _unknown(there, damage)
        return damage
    if latest.lake is not None and Inventory.of(there.items()) == latest.lake:
        return damage
    data, quarantined = live(checkpoints.manifests())
    for file in [*data, *quarantined]:
        _compare(file, there.pop(file.path, None), damage)
    _unknown(there, damage)
    return damage


def missing_manifests(
    checkpoints: Checkpoints, filesystem: LakeFileSystem, *, altered: bool = False
) -> list[str]:
    """Return what is wrong with the manifests, by the listing of their directory.

    Args:
        checkpoints: of the output directory.
        filesystem: where it lies.
        altered: whether manifests that are not as they were written are left to the caller.
    """
    numbers = checkpoints.manifest_numbers()
    latest: Manifest | None = None
    try:
        latest = checkpoints.manifest(numbers[-1], altered=altered) if numbers else None
    except AlteredCheckpoint:
        return [] if altered else [_altered(checkpoints, numbers[-1])]
    beginning = latest.beginning if latest is not None else 0
    counted = set(numbers)
    planned = [
        run
        for run in checkpoints.run_numbers()
        if run > beginning and run not in counted and checkpoints.is_planned(run)
    ]
    # The last run may be planned and not published yet, none before it.
    unpublished = planned[-1:] if planned and planned[-1] > max([0, *numbers]) else []
    problems = [
        f"the manifest of run {run} is missing: {checkpoints.path('manifests', manifest_name(run))}"
        for run in planned
        if run not in unpublished
    ]
    if problems or latest is None or latest.earlier is None:
        return problems
    earlier = [run for run in numbers if beginning <= run < latest.run]
    sizes = {each.path: each.size_bytes for each in filesystem.walk(checkpoints.path("manifests"))}
    names = [manifest_name(run) for run in earlier]
    if Inventory.of((name, sizes.get(name, 0)) for name in names) == latest.earlier:
        return problems
    for run in () if altered else earlier:
        try:
            checkpoints.manifest(run)
        except AlteredCheckpoint:
            problems.append(_altered(checkpoints, run))
    gone = latest.earlier.files - len(earlier)
    if gone > 0:
        problems.append(
            f"{gone} of the {latest.earlier.files} manifests before run {latest.run} "
            f"{'is' if gone == 1 else 'are'} missing from {checkpoints.path('manifests')}"
        )
    if not problems:
        where = checkpoints.path("manifests")
        problems.append(f"{where}: not the manifests that were written before run {latest.run}")
    return problems


def _altered(checkpoints: Checkpoints, run: int) -> str:
    return f"{checkpoints.path('manifests', manifest_name(run))} is not as it was written"


def describe(damage: Damage, output: str) -> str:
    """Return what is wrong and what to do about it, for people."""
    if damage.checkpoints:
        found, advice = damage.checkpoints, [_ADVICE_CHECKPOINTS]
    elif damage.files:
        found, advice = damage.files, list(_rewinds(damage, output))
    else:
        found, advice = damage.unknown, [_ADVICE_UNKNOWN]
    shown = [f"  {each}" for each in found[:_SHOWN]]
    if len(found) > _SHOWN:
        shown.append(f"  … and {len(found) - _SHOWN} more")
    return "\n".join(
        [
            f"{output} is not as the last load left it, so nothing was loaded:",
            *shown,
            *advice,
            f"`zkbroker-load verify --output {output}` looks at the contents of every file",
        ]
    )


_TAKE_OVER = (
    "or take the data files that are there over as a new beginning: the same command with --adopt"
)
_ADVICE_CHECKPOINTS = f"""\
Going on would load rows a second time or leave some out.
Put the checkpoints (_zkbroker) back from a backup;
{_TAKE_OVER}"""
_ADVICE_UNKNOWN = f"""\
Going on would load their rows a second time, unless they were put there by hand.
Put the checkpoints (_zkbroker) back from a backup, or move the files away;
{_TAKE_OVER}"""


def _rewinds(damage: Damage, output: str) -> Iterator[str]:
    yield "Put the files back from a backup; or load what was in them again:"
    for source, offset in sorted(damage.first_lost.items())[:_SHOWN]:
        yield (
            f"  zkbroker-load rewind --output {output} --topic {source.topic} "
            f"--partition {source.partition} --to {offset}"
        )
    yield "or go on without them, what is missing entered as a gap: the same command with --adopt"


def _there(
    checkpoints: Checkpoints, filesystem: LakeFileSystem, latest: Manifest | None
) -> Iterator[tuple[str, int]]:
    """Yield path and length of the files that should be in the account."""
    passing = set(latest.withdrawn) if latest is not None else set()
    passing.update(each.path for each in _half_published(checkpoints))
    output = checkpoints.output
    for each in data_files(filesystem, output):
        if each.path not in passing and named_by_loader(each.path) is not None:
            yield each.path, each.size_bytes
    for each in quarantine_files(filesystem, output):
        if each.path not in passing:
            yield each.path, each.size_bytes


def _half_published(checkpoints: Checkpoints) -> Iterator[DataFile]:
    """Yield the files of a run or a replay that was stopped before its manifest was written."""
    replayed = unfinished_replay(checkpoints)
    if replayed is not None:
        yield from (*replayed.files, *replayed.quarantined)
    plan = checkpoints.unfinished()
    for mapper in range(len(plan.mappers) if plan is not None else 0):
        assert plan is not None
        done = checkpoints.mapper_offsets(plan.run, mapper)
        if done is not None:
            yield from (*done.files, *done.quarantined)


def _compare(file: DataFile, size: int | None, damage: Damage) -> None:
    if size == file.size_bytes:
        return
    source = TopicPartition(file.topic, file.partition)
    damage.first_lost[source] = min(damage.first_lost.get(source, file.start), file.start)
    what = f"{file.path} (offsets [{file.start}, {file.until}))"
    if size is None:
        damage.files.append(f"{what} is missing")
    else:
        damage.files.append(f"{what} has {size} bytes, {file.size_bytes} were published")


def _unknown(there: dict[str, int], damage: Damage) -> None:
    damage.unknown.extend(f"{path} is named by no manifest" for path in sorted(there))
