"""The set-up of a Python worker of Spark."""

import subprocess
import sys

import pytest

FROZEN = """
import gc, sys, types
for name in {modules}:
    sys.modules[name] = types.ModuleType(name)
from spark_loader.worker import settle
settle()
print(gc.get_freeze_count() > 0)
"""


@pytest.mark.parametrize(("modules", "frozen"), [(["pyspark.worker"], "True"), ([], "False")])
def test_only_worker_freezes_loaded_modules(modules, frozen):
    code = FROZEN.format(modules=modules)
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert found.stdout.strip() == frozen
