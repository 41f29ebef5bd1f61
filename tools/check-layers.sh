#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# check-layers.sh [SRC]: fails on an #include that goes up or sideways in SRC/LAYERS.
set -eu
cd "${1:-$(dirname "$0")/../src}"

# shellcheck disable=SC2016 # the dollars are awk's
find . -name '*.[ch]' | sed 's|^\./||' | LC_ALL=C sort | xargs awk '
    FILENAME == "LAYERS" && /^====/ { public = level; for (i = 2; i <= NF; i++) given[$i] }
    FILENAME == "LAYERS" && /^[a-z]/ { level++; for (i = 1; i <= NF; i++) layer[$i] = level }
    FILENAME == "LAYERS" && /^[+]/ { spared[$2, $3] = 1 }
    FILENAME == "LAYERS" || !/^[ \t]*#[ \t]*include/ { next }
    { split(FILENAME, own, "/"); from = own[1]
      name = $0; sub(/^[^"<]*["<]/, "", name); sub(/[">].*/, "", name)
      depth = split(name, to, "/"); bad = !(from in layer) }
    $0 ~ /</ { bad = bad || (from == "base" && to[1] == "cay" && name != "cay/error.h") }
    $0 !~ /</ && depth > 1 && to[1] == from { bad = bad || (from == "backends" && to[2] != own[2]) }
    $0 !~ /</ && depth > 1 && to[1] != from {
        bad = bad || !(to[1] in layer) || layer[to[1]] >= layer[from] ||
            (layer[from] > public && layer[to[1]] <= public &&
             to[1] != "base" && to[1] != "net" && !(name in given)) }
    (from, to[1]) in spared { bad = 0 }
    bad { print "src/" FILENAME ":" FNR ": may not include " name; failed = 1 }
    END { exit failed }
' LAYERS
