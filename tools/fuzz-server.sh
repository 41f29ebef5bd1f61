#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# fuzz-server.sh SECONDS [SEED]: random clients and hostile requests at the same time, each against
# servers of its own that run under the sanitizers (tests/hostile/test-p17-*.py).
set -eu
cd "$(dirname "$0")/.."

seconds=${1:-60}
seed=${2:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
tools/configure.sh build-asan -Db_sanitize=address,undefined -Dbuildtype=debug -Dtests=true
ninja -C build-asan --quiet
reports=$PWD/build-asan/sanitizer
rm -rf "$reports"
mkdir -m 1777 "$reports"

export CAY="$PWD/build-asan/cay" CAY_SOURCE="$PWD" CAY_BUILD="$PWD/build-asan" CAY_SANITIZED=1
export ASAN_OPTIONS="detect_leaks=0:log_path=$reports/report" UBSAN_OPTIONS=print_stacktrace=1
status=0
tests/hostile/test-p17-clients.py --seconds "$seconds" --seed "$seed" &
clients=$!
tests/hostile/test-p17-requests.py --seconds "$seconds" --seed "$seed" || status=1
wait $clients || status=1
for report in "$reports"/*; do
    [ ! -f "$report" ] || { cat "$report" && status=1; }
done
[ $status = 0 ] || echo "fuzz-server: failed; again with: tools/fuzz-server.sh $seconds $seed" >&2
exit $status
