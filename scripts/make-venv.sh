#!/bin/sh
# Makes the virtual environment with everything the tests and the demo need. kafka-python 2.0.2, the
# last release that speaks to brokers of the 0.8 years, lives beside the newest one in a folder of
# its own, and so do the Node.js clients, where there is a Node.js.
set -eu

venv=$1
legacy=$2
[ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
echo "installing zkbroker and its dependencies into $venv (about a minute)"
# By a path: the finder that is the default costs each Python process 15 ms at its start.
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    --config-settings editable_mode=compat --editable '.[dev]'
[ -d "$legacy" ] || "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    --no-deps --target "$legacy" 'kafka-python==2.0.2'
sh "$(dirname "$0")/install-node-clients.sh" "$venv/node-clients"
