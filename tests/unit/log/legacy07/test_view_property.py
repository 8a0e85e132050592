"""Random lives of a view and its master: positions and offsets keep their messages."""

import gc
import logging
import shutil

import pytest

from tests.support import soak
from tests.support.view_story import tell


@pytest.mark.parametrize("seed", range(8))
def test_view_shows_its_master_through_crashes_and_new_leaders(tmp_path, seed):
    tell(tmp_path, seed)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(10))
def test_view_shows_its_master_through_a_thousand_lives(tmp_path, part, caplog):
    # pytest keeps all records of a test, and those of errors keep the frames with their buffers.
    caplog.set_level(logging.CRITICAL, logger="zkbroker")
    for seed in soak.seeds(1000 + 100 * part, 100):
        work = tmp_path / str(seed)
        work.mkdir()
        try:
            tell(work, seed, lives=4, steps=120)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
        shutil.rmtree(work)
        gc.collect()  # a story leaves few objects in cycles, but with all the bytes of its disk
