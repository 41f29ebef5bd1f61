#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# lint.sh [--quick] BUILDDIR: everything that reads the code without running it. Goes on after a
# complaint and fails at the end. --quick: only what takes seconds, which is part of make test.
# clang-tidy is left out where it is not installed, and with CAY_TIDY=0.
set -u
cd "$(dirname "$0")/.." || exit 1

quick=0
if [ "${1:-}" = --quick ]; then
    quick=1
    shift
fi
build=${1:-build}
failed=0

step()
{
    echo "== $1"
    shift
    "$@" || failed=1
}

# Programs that fail at a certain line are not ours to format.
sources=$(find include src tests tools examples bench -path '*/programs/errors' -prune \
    -o -name '*.[ch]' -print | LC_ALL=C sort)
scripts=$(find tools tests bench .ci -path '*/programs/errors' -prune -o -type f -print |
    LC_ALL=C sort |
    xargs awk 'FNR == 1 && /^#!.*[\/ ](ba)?sh/ { print FILENAME }')
# Programs that are to be found wrong are not ours to mend.
python=$(find tests tools bench examples -path '*/programs' -prune -o -name '*.py' -print | LC_ALL=C sort)

# shellcheck disable=SC2086
step clang-format clang-format --dry-run -Werror $sources
# shellcheck disable=SC2086
step shellcheck shellcheck $scripts
# shellcheck disable=SC2086
step pyflakes pyflakes3 $python
[ $quick = 0 ] || exit $failed
step check-layers tools/check-layers.sh
step check-symbols tools/check-symbols.sh "$build"
step check-modules tools/check-modules.py --fetch "$build/debian-index"
step cppcheck cppcheck -q -j 2 --std=c11 --enable=warning,performance,portability \
    --library=gnu --inline-suppr --suppress=missingIncludeSystem --suppress=unknownMacro \
    --suppress=pointerOutOfBoundsCond \
    --suppress=internalAstError --suppress=syntaxError `# compound literals in ?: and in macros` \
    --suppress=autoVariables --suppress=deallocret `# that the callee is done with; a number` \
    --suppress=nullPointer:src/warden/clients.c `# accept4 takes one` \
    --suppress=nullPointerRedundantCheck --suppress=nullPointerArithmeticRedundantCheck \
    --error-exitcode=1 -D_GNU_SOURCE -D__x86_64__ \
    -I include -I src -I "$build/include" -I "$build/src" src tools

if [ "${CAY_TIDY:-1}" = 1 ] && command -v clang-tidy >/dev/null; then
    checks='-*,bugprone-*,cert-*,clang-analyzer-*,misc-*,performance-*,portability-*'
    # Left out: what is a matter of taste here (recursion in parsers is bounded by depth), what
    # -Wconversion says better, and what version 14 gets wrong (va_list with _FORTIFY_SOURCE; rows
    # of tables, which are macros' replacements and no expressions; a few bytes between the fields
    # of such a row; sizeof of what a list of pointers holds).
    for check in bugprone-easily-swappable-parameters bugprone-reserved-identifier \
        bugprone-narrowing-conversions bugprone-macro-parentheses bugprone-sizeof-expression \
        cert-dcl37-c cert-dcl51-cpp cert-err33-c \
        misc-no-recursion performance-no-int-to-ptr clang-analyzer-valist.Uninitialized \
        clang-analyzer-optin.performance.Padding \
        clang-analyzer-security.insecureAPI.DeprecatedOrUnsafeBufferHandling; do
        checks="$checks,-$check"
    done
    # One command of each file is enough: the others differ in names.
    mkdir -p "$build/tidy"
    awk '
        /^  \{/ { entry = "" }
        /^    "file": / { file = $2 }
        /^    / { entry = entry $0 "\n" }
        /^  \}/ && !(file in entries) { entries[file] = entry }
        END {
            print "["
            for (file in entries) {
                printf "%s  {\n%s  }", between, entries[file]
                between = ",\n"
            }
            print "\n]"
        }' "$build/compile_commands.json" >"$build/tidy/compile_commands.json"
    find src -name '*.c' | while read -r file; do
        grep -qF "/$file\"" "$build/tidy/compile_commands.json" && echo "$file"
    done | LC_ALL=C sort >"$build/tidy/files"
    # A few at a time, for an error in one makes those behind it count as failed too.
    step clang-tidy xargs -a "$build/tidy/files" -n 8 -P 2 clang-tidy --quiet -p "$build/tidy" \
        --checks="$checks" --warnings-as-errors='*' --extra-arg=-Wno-unknown-warning-option
fi

[ $failed = 0 ] && echo "lint: nothing to complain about"
exit $failed
