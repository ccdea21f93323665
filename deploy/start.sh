#!/bin/sh
# Starts a gateway and nodes on this machine, and ends all of them together: with Ctrl-C, with TERM,
# or when the gateway ends. PORT (7878) and NODES (2) say where and how many; what else there is to
# set is in roost.toml or in ROOST_ variables, which all of them read.
set -eu
port=${PORT:-7878}
nodes=${NODES:-2}
folder=$(mktemp -d)
running=

end() {
    trap '' INT TERM
    # shellcheck disable=SC2086 - these are several
    [ -z "$running" ] || kill -TERM $running 2>/dev/null || true
    wait
    rm -rf "$folder"
}
trap 'end; exit 130' INT
trap 'end; exit 0' TERM

roost gateway --host 127.0.0.1 --port "$port" &
gateway=$!
running=$gateway
until roost health --url "http://127.0.0.1:$port" >/dev/null 2>&1; do
    kill -0 "$gateway" 2>/dev/null || { end; exit 1; }
    sleep 0.2
done
(umask 077 && roost token --no-pin > "$folder/token")
while [ "$nodes" -gt 0 ]; do
    roost node --join "http://127.0.0.1:$port" --token-file "$folder/token" &
    running="$running $!"
    nodes=$((nodes - 1))
done

code=0
wait "$gateway" || code=$?
end
exit "$code"
