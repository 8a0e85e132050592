"""Why Spark failed, in one sentence: the cause without the Python and Java traces around it.

    … Traceback (most recent call last): … zkbroker.errors.ClientError: no broker answers
    … Lost task 0.0 in stage 0.0 …: java.lang.OutOfMemoryError: Java heap space
    Caused by: java.io.IOException: No space left on device

Invariant: the cause is part of Spark's message, and not empty.
"""

import re

# The last line of a Python traceback: `some.module.Name: why`.
_PYTHON = re.compile(r"^((?:\w+\.)*[A-Z]\w+): (\S.*)$", re.MULTILINE)
_CAUSED = re.compile(r"^\s*Caused by: (\S.*)$", re.MULTILINE)
_TASK = re.compile(r"most recent failure: Lost task .*?\): (\S.*)$", re.MULTILINE)
_AROUND = re.compile(r"^An error occurred while calling [^\n]*\n", re.MULTILINE)
_PACKAGES = re.compile(r"^(?:[a-z_]\w*\.)+(?=[A-Z])")
# Exceptions that only say that another one was thrown.
_CARRIERS = ("PythonException", "SparkException", "Py4JJavaError", "PySparkRuntimeError")


def cause_of(error: BaseException) -> str:
    """Return the cause of an error that Spark raised, as `Name: why`."""
    text = _AROUND.sub("", str(error))
    for trace in text.split("Traceback (most recent call last)")[:0:-1]:
        for name, why in _PYTHON.findall(trace)[:1]:
            # Raised by PySpark, which stops the reader of a stream that could not be made.
            if name != "UnboundLocalError":
                return f"{_PACKAGES.sub('', name)}: {why}"
    found = [*_CAUSED.findall(text)[-1:], *_TASK.findall(text)[-1:]]
    for each in found:
        if not _PACKAGES.sub("", each).startswith(_CARRIERS):
            return _PACKAGES.sub("", each)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = lines[0] if lines else type(error).__name__
    return _PACKAGES.sub("", first)
