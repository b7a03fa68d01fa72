#!/bin/sh
# Makes what the others need to know each other, once, each file for its reader alone:
#   keys.sh DIR OWNER DATABASE_OWNER
# DIR/server is a server's data directory, DIR/worker a worker's secrets, DIR/database the database's.
set -eu
dir=$1 owner=$2 database_owner=$3
umask 077
random() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }
# Whole or not at all: a file that is half written would be taken for a secret.
put() { # FILE OWNER TEXT
    printf '%s' "$3" > "$1.new"
    chown "$2" "$1.new"
    mv "$1.new" "$1"
}
# The last file of all says that every one is there.
[ -e "$dir/server/token" ] && exit 0
join=$(random) password=$(random)
put "$dir/worker/join-token" "$owner" "$join"
put "$dir/server/join-token" "$owner" "$join"
put "$dir/database/password" "$database_owner" "$password"
put "$dir/server/store-password" "$owner" "$password"
put "$dir/server/token" "$owner" "$(random)"
