"""The Java machine of this computer: where it is, how old, and how it reads the names of files.

Only the embedded ZooKeeper and Spark need one.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from zkbroker.errors import RegistryError

MIN_JAVA = 17
INSTALL_JAVA = "install it, on Debian and Ubuntu with: apt-get install openjdk-17-jre-headless"
_VERSION_TIMEOUT_S = 20.0


def find_java() -> str:
    """Return the path of `java`: that of JAVA_HOME, else of PATH.

    Raises:
        RegistryError: there is none; the message says how to install it.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if os.access(java, os.X_OK):
            return str(java)
    found = shutil.which("java")
    if found is None:
        raise RegistryError(
            f"the embedded ZooKeeper and Spark need Java {MIN_JAVA} or newer, and there is no java "
            f"command: {INSTALL_JAVA}; or name a running ZooKeeper instead"
        )
    return found


def java_version(java: str) -> int | None:
    """Return the major version of a `java` command (8, 17, …), None where it does not say.

    Raises:
        RegistryError: it cannot be run.
    """
    try:
        ran = subprocess.run(  # noqa: S603 - the Java of this computer, no shell
            [java, "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RegistryError(f"{java} cannot be run: {error}") from error
    # Up to Java 8 the version is written 1.8.0.
    said = re.search(r'version "(?:1\.)?(\d+)', ran.stderr + ran.stdout)
    return int(said[1]) if said else None


def require_java() -> str:
    """Return the path of a Java that is new enough.

    Raises:
        RegistryError: there is none, it cannot be run, or it is too old.
    """
    java = find_java()
    version = java_version(java)
    if version is not None and version < MIN_JAVA:
        raise RegistryError(
            f"the embedded ZooKeeper and Spark need Java {MIN_JAVA} or newer, and {java} is "
            f"version {version}: {INSTALL_JAVA}, and let JAVA_HOME or PATH lead to it"
        )
    return java


def java_environment() -> dict[str, str]:
    """Return the environment for a Java process that opens files of any name.

    Java takes the encoding of file names from the locale. In the plain C locale that is ASCII, in
    which a path with other letters, perhaps that of a home directory, does not exist.
    """
    environment = dict(os.environ)
    names = ("LC_ALL", "LC_CTYPE", "LANG")
    locale = next((environment[name] for name in names if environment.get(name)), "C")
    if locale in ("C", "POSIX"):
        environment["LC_ALL"] = "C.UTF-8"
    return environment
