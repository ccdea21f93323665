#!/usr/bin/env bash
# Brings the JavaScript clients of `make test-clients`, exactly as the lock file names them, and npm
# where it is missing. The lock file holds hashes and no addresses.
set -euo pipefail
cd "$(dirname "$0")/js"
if ! command -v npm >/dev/null; then
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        echo "make test-clients needs Node 18 or newer and npm: sudo apt-get install nodejs npm" >&2
        exit 2
    fi
    echo "installing nodejs and npm (once)"
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update
    apt-get -qq --yes --no-install-recommends install nodejs npm >/dev/null
fi
echo "installing tests/clients/js (once, about 80 MB)"
npm ci --silent --ignore-scripts
