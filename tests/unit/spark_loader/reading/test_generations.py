"""Generations are found by name and by partition."""

import re
from pathlib import Path

import spark_loader
from spark_loader.reading.generations import PLUGINS, find_generation, generation_of
from zkbroker.types import Partition07


def test_generations_are_found_by_name_and_partition():
    assert [find_generation(name).counts_records for name in PLUGINS] == [True, False]
    assert generation_of([0, 1]) == ""
    assert generation_of([0, Partition07(1, 0)]) == "0.7"
    assert generation_of([]) == ""


def test_only_plug_in_compares_generation_name():
    compared = re.compile(r"""[!=]= ["']0\.7["']|["']0\.7["'] (?:not )?in """)
    modules = [*Path(spark_loader.__path__[0]).rglob("*.py")]
    assert len(modules) > 50
    found = {each for each in modules if compared.search(each.read_text())}
    assert {each for each in found if "legacy07" not in each.parts} == set()
