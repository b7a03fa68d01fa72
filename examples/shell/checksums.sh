#!/bin/sh
# Writes the checksums of all files of one directory, named by the shard. Running it twice is the
# same as running it once: what it writes appears whole or not at all, and always under the same name.
set -eu

dir="$IN_DIR/$SICHEN_ITEM"
[ -d "$dir" ] || { echo "$dir is not there yet" >&2; exit 3; }

# The planned time names the period, whenever the attempt runs; a run by hand has its key.
out="$OUT_DIR/${SICHEN_PLANNED_AT:-$SICHEN_RUN}"
mkdir -p "$out"
# The token is this attempt's alone: a former one that still writes has another file.
new="$out/.$SICHEN_ITEM.$SICHEN_TOKEN"
trap 'rm -f "$new"' EXIT
trap 'exit 1' TERM

total=$(find "$dir" -type f | wc -l)
n=0
: > "$new"
for file in "$dir"/*; do
    [ -f "$file" ] || continue
    (cd "$dir" && sha256sum "./${file##*/}") >> "$new"
    n=$((n + 1))
    echo "{\"done\": $n, \"expected\": $total}" >> "$SICHEN_REPORT"
done

# Is the shard still ours? 8: another has it. 9: we are to stop.
sichen report checkpoint "$n files" --done "$n" --expected "$total"
mv "$new" "$out/$SICHEN_ITEM.sha256"
sichen report result "{\"files\": $n}"
