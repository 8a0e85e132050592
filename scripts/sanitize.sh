#!/bin/sh
# Runs the tests of the C twins with AddressSanitizer and UndefinedBehaviorSanitizer: the sources
# are built in a copy, so that the environment's own twins stay as they are.
#
#     sh scripts/sanitize.sh [PYTEST OPTIONS]
set -eu

python=$(pwd)/.venv/bin/python
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r zkbroker spark_loader bench tests examples pyproject.toml "$copy"
include=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')
suffix=$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
cd "$copy"
for room in records protocol; do
    rm -f "zkbroker/$room/_speedups"*.so
    cc -O1 -g -fPIC -shared -fno-omit-frame-pointer -fsanitize=address,undefined \
        -fno-sanitize-recover=undefined -I"$include" -o "zkbroker/$room/_speedups$suffix" \
        "zkbroker/$room/speedups/"*.c
done
# Python itself does not give back all of its memory at the end.
ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD="$(cc -print-file-name=libasan.so) $(cc -print-file-name=libubsan.so)" \
    PYTHONPATH=$copy PYTHONMALLOC=malloc "$python" -m pytest -q -m "not soak" -p no:cacheprovider \
    tests/unit/protocol/test_portable.py tests/unit/records/test_placing.py \
    tests/unit/records/test_twins.py tests/unit/broker/test_plain_ways.py "$@"
