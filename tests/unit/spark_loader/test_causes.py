"""The cause of a Spark error is extracted."""

import pytest

from spark_loader.causes import cause_of

TRACE = "\n".join(f"\tat org.apache.spark.X.f{n}(X.scala:{n})" for n in range(60))
PYTHON = f"""An error occurred while calling z:org.apache.spark.x.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 \
times, most recent failure: Lost task 0.0 in stage 0.0 (TID 0) (host executor driver): \
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
zkbroker.errors.ClientError: no broker answers: give other addresses

{TRACE}
Driver stacktrace:
{TRACE}
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
zkbroker.errors.ClientError: no broker answers: give other addresses

{TRACE}
"""
STREAM = """[PYTHON_DATA_SOURCE_ERROR] Failed to plan: Traceback (most recent call last):
  File "options.py", line 83, in parse
zkbroker.errors.ConfigError: there is no option startingoffets

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "python_streaming_source_runner.py", line 295, in main
UnboundLocalError: cannot access local variable 'reader'
 SQLSTATE: 38000
"""
HEAP = f"""An error occurred while calling o1.x.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 3 in stage 1.0 failed 4 \
times, most recent failure: Lost task 3.3 in stage 1.0 (TID 9) (h executor 1): \
java.lang.OutOfMemoryError: Java heap space
{TRACE}
"""
DISK = f"""An error occurred while calling o1.x.
: org.apache.spark.SparkException: something
{TRACE}
Caused by: java.lang.RuntimeException: wrapped
{TRACE}
Caused by: java.io.IOException: No space left on device
{TRACE}
"""
LOST = """Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times, most recent \
failure: Lost task 0.0 in stage 0.0 (TID 0) (h executor driver): ExecutorLostFailure (executor 1 \
exited caused by one of the running tasks) Reason: worker lost"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (PYTHON, "ClientError: no broker answers: give other addresses"),
        (STREAM, "ConfigError: there is no option startingoffets"),
        (HEAP, "OutOfMemoryError: Java heap space"),
        (DISK, "IOException: No space left on device"),
        (LOST, LOST.rpartition("): ")[2]),
        ("plain", "plain"),
        ("", "RuntimeError"),
    ],
)
def test_cause_has_one_line(text, cause):
    found = cause_of(RuntimeError(text))
    assert found == cause
    assert "\n" not in found
