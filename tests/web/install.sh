#!/usr/bin/env bash
# Brings what `make test-web` needs and no Python package has: a browser and Node. Nothing is
# touched where both are there.
set -euo pipefail
missing=()
command -v chromium >/dev/null || missing+=(chromium fonts-dejavu-core)
command -v node >/dev/null || missing+=(nodejs)
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "make test-web needs a browser and Node: sudo apt-get install ${missing[*]}" >&2
    exit 2
fi
echo "installing ${missing[*]} (once, about 400 MB)"
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
apt-get -qq --yes --no-install-recommends install "${missing[@]}" >/dev/null
