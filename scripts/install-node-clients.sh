#!/bin/sh
# Puts the Node.js clients of the interoperability tests into a folder, when node and npm are there.
# Never fails: without the clients those tests are skipped, and nothing else needs them.
set -u

folder=$1
wanted=$(dirname "$0")/../tests/interop/node/package.json

command -v node >/dev/null 2>&1 && command -v npm >/dev/null 2>&1 || exit 0
cmp -s "$wanted" "$folder/installed.json" && exit 0
rm -rf "$folder"
mkdir -p "$folder" && cp "$wanted" "$folder/package.json"
if (cd "$folder" && npm install --ignore-scripts --omit=optional --no-audit --no-fund \
    --no-package-lock --fetch-retries=1 --fetch-timeout=30000 >install.log 2>&1); then
    cp "$wanted" "$folder/installed.json"
else
    echo "the Node.js clients could not be installed ($folder/install.log): their tests are skipped"
fi
exit 0
