#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# check-docs.sh BUILDDIR: lints the man pages, looks for relative links in Markdown that lead
# nowhere, and for options of a command (rows of struct opt in src/cli/NAME.c) that its man page
# docs/man/cay-NAME.1.scd does not name; for sources that the maps of the tree name and that are gone;
# and for lines of Markdown past 120 columns.
set -eu
cd "$(dirname "$0")/.."

build=${1:-build}
failed=0

for page in "$build"/docs/*.[1-8]; do
    [ -f "$page" ] || continue
    # scdoc itself writes paragraphs that hold nothing; the author can't help it.
    if mandoc -Tlint -W warning "$page" | grep -v 'skipping paragraph macro'; then
        failed=1
    fi
done

for file in *.md docs/*.md; do
    [ -f "$file" ] || continue
    for link in $(grep -oE '\]\([^)#[:space:]]+' "$file" | sed 's/^](//' |
        grep -vE '^(https?|mailto):' || :); do
        if [ ! -e "$(dirname "$file")/$link" ]; then
            echo "$file: $link leads nowhere"
            failed=1
        fi
    done
done

for file in *.md docs/*.md; do
    if LC_ALL=C.UTF-8 grep -nE '^.{121}' "$file" | sed "s|^|$file:|" | cut -c 1-100 | grep .; then
        echo "$file: lines of more than 120 columns"
        failed=1
    fi
done

sources=$(find src include tests tools languages -name '*.[ch]' | sed 's|^|/|')
for file in docs/architecture.md docs/native-backend.md docs/threat-model.md; do
    # shellcheck disable=SC2016,SC2013 # NAME stands for any; names are words
    for name in $(grep -oE '`[A-Za-z0-9_/-]+\.[ch]`' "$file" | tr -d '`' | grep -v NAME | sort -u); do
        if ! printf '%s\n' "$sources" | grep -qE "/$name\$"; then
            echo "$file: there is no $name"
            failed=1
        fi
    done
done

for file in src/cli/*.c; do
    [ -f "$file" ] || continue
    name=$(basename "$file" .c)
    page=docs/man/cay-$name.1.scd
    [ -f "$page" ] || page=docs/man/cay-${name%%-*}.1.scd # image-list.c is part of image
    [ -f "$page" ] || page=docs/man/cay.1.scd
    # shellcheck disable=SC2013 # names are words
    for name in $(sed -nE 's/^[[:space:]]*\{ OPT_[A-Z]+, [^,]+, "([a-z0-9-]+)".*/\1/p' "$file"); do
        if ! grep -qFe "--$name" "$page"; then
            echo "$page: --$name of $file is not there"
            failed=1
        fi
    done
done
exit $failed
