#!/bin/sh
# Says clearly what is missing before anything is installed: Python 3.11+ with venv, Java 17+.
set -eu

fail() {
    printf '%s\n' "$1" >&2
    printf '  install it with: %s\n' "$2" >&2
    exit 1
}

PYTHON=${PYTHON:-python3}
command -v "$PYTHON" >/dev/null 2>&1 ||
    fail "zkbroker needs Python 3.11 or newer; no $PYTHON was found" \
        "sudo apt-get install python3 python3-venv"
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "zkbroker needs Python 3.11 or newer; $PYTHON is $("$PYTHON" -V 2>&1)" \
        "sudo apt-get install python3.11 python3.11-venv, then: make PYTHON=python3.11 ..."
"$PYTHON" -c 'import ensurepip' 2>/dev/null ||
    fail "Python's venv module is missing" "sudo apt-get install python3-venv"

JAVA=java
[ -z "${JAVA_HOME:-}" ] || JAVA="$JAVA_HOME/bin/java"
command -v "$JAVA" >/dev/null 2>&1 ||
    fail "ZooKeeper and Spark need Java 17 or newer; no $JAVA was found" \
        "sudo apt-get install openjdk-17-jre-headless"
version=$("$JAVA" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
[ "${version:-0}" -ge 17 ] ||
    fail "ZooKeeper and Spark need Java 17 or newer; $JAVA is version ${version:-unknown}" \
        "sudo apt-get install openjdk-17-jre-headless, and unset JAVA_HOME"
