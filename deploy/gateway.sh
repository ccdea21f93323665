#!/bin/sh
# The gateway of a Compose fleet. Before its first start it makes the join token that its nodes read,
# and with that the certificate by which they know it.
set -eu
folder=${JOIN_FOLDER:-/join}

if [ ! -s "$folder/token" ]; then
    (umask 077 && roost token > "$folder/.token.new")
    mv "$folder/.token.new" "$folder/token"
fi
exec roost gateway "$@"
