#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# install-packages.sh [--check] SECTION[:PACKAGE]...: installs what is missing of the packages
# that packages.txt lists in these sections. As root, or through sudo; where neither is possible,
# or with --check, it prints the command to run and fails. CAY_NO_INSTALL=1 skips it all.
set -eu
cd "$(dirname "$0")/.."

check=0
if [ "${1:-}" = --check ]; then
    check=1
    shift
fi
[ "${CAY_NO_INSTALL:-0}" != 1 ] || exit 0

# A wrong section would otherwise look as if nothing were missing.
wanted=
for section in "$@"; do
    found=$(awk -v section="${section%%:*}" -v only="$section" '
        { split($2, part, "=") }
        $1 == section && (only == section || only == section ":" part[1]) { print $2 }
    ' packages.txt)
    if [ -z "$found" ]; then
        echo "install-packages: packages.txt has no $section" >&2
        exit 2
    fi
    wanted="$wanted $found"
done

if ! command -v dpkg-query >/dev/null; then
    echo "install-packages: this is not Debian; install what these packages hold:" >&2
    # shellcheck disable=SC2086
    printf '  %s\n' $wanted >&2
    echo "and set CAY_NO_INSTALL=1" >&2
    exit 1
fi

# One call for all of them; packages that dpkg has never heard of make it fail, which is fine.
# shellcheck disable=SC2046,SC2086
installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' \
    $(printf '%s\n' $wanted | sed 's/=.*//') 2>/dev/null | sed -n 's/^installed //p') || :

missing=
for want in $wanted; do
    package=${want%%=*}
    case "
$installed
" in
    *"
$package
"*) continue ;;
    esac
    if [ "$want" != "$package" ] && [ -e "${want#*=}" ]; then
        continue
    fi
    case " $missing " in
    *" $package "*) ;;
    *) missing="${missing:+$missing }$package" ;;
    esac
done
[ -n "$missing" ] || exit 0

apt="apt-get install -y --no-install-recommends"
if [ "$(id -u)" = 0 ]; then
    sudo=
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    sudo="sudo -n"
elif command -v sudo >/dev/null && [ -t 0 ]; then
    sudo=sudo
else
    check=1
fi
if [ $check = 1 ]; then
    echo "Missing packages. Run this, then try again:" >&2
    echo "  sudo $apt $missing" >&2
    exit 1
fi

as_root()
{
    # shellcheck disable=SC2086
    $sudo env DEBIAN_FRONTEND=noninteractive "$@" -o DPkg::Lock::Timeout=300 </dev/null
}

# On a terminal a line says how far it is: apt's own status, whose third field is per cent and whose
# fourth says what. Line by line: awk may wait until it has been given thousands of bytes.
progress()
{
    while IFS= read -r line; do
        case $line in
        dlstatus:* | pmstatus:*)
            [ -t 2 ] || continue
            line=${line#*:*:}
            printf '\r\033[K%3d %% %.60s' "${line%%[.:]*}" "${line#*:}" >&2
            ;;
        *) printf '%s\n' "$line" ;;
        esac
    done
    [ ! -t 2 ] || printf '\r\033[K' >&2
}

# apt-get ARGS: its status, not that of what shows it.
apt_get()
{
    rm -f "$log.done"
    { as_root apt-get "$@" -qq -o APT::Status-Fd=1 2>&1 && : >"$log.done"; } | progress
    [ -e "$log.done" ]
}

install()
{
    # shellcheck disable=SC2086
    apt_get install -y --no-install-recommends $missing
}

update()
{
    [ ! -t 2 ] || printf 'Fetching the lists of packages …' >&2
    apt_get update
}

has_lists()
{
    [ -n "$(find /var/lib/apt/lists -maxdepth 1 -name '*_Packages*' 2>/dev/null | head -n 1)" ]
}

echo "Installing: $missing"
log=$(mktemp)
trap 'rm -f "$log" "$log.done"' EXIT
if { has_lists || update; } >"$log" && install >>"$log"; then
    exit 0
fi
# Old lists name packages that the mirror no longer has.
if update >>"$log" && install >>"$log"; then
    exit 0
fi
cat "$log" >&2
echo "install-packages: this failed: $apt $missing" >&2
exit 1
