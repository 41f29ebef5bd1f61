#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# install-esbuild.sh: puts a pinned esbuild into /usr/local/bin, where cay looks first, beside
# Debian's own of 2022, which does not know the syntax of TypeScript 5. It is one static program
# from the npm registry, checked by its digest. Where it can't be had (no network, no root) this
# says so and succeeds: Debian's does the rest. CAY_NO_INSTALL=1 skips it.
set -eu

version=0.28.2
target=/usr/local/bin/esbuild

[ "${CAY_NO_INSTALL:-0}" != 1 ] || exit 0
[ ! -e $target ] || exit 0

leave()
{
    echo "install-esbuild: $1; TypeScript is left to Debian's esbuild" >&2
    exit 0
}

case $(uname -m) in
x86_64)
    arch=linux-x64
    digest=e314d9af5154992a105b85c85a68addedcd0ad44d933e3773f45d5f3144e298179d177c8ef178ef74fb56d9bcdc3122e7d0f610d0551247e588603d517c03f1d
    ;;
aarch64)
    arch=linux-arm64
    digest=a56e000b43f78adf1cedda3d315338a79d45cc7cdd33f4d9adeaeeae045c1c9d964dad55435088ab5f319dc7e9049c38a23922659aca5b6c8805604ff768fa52
    ;;
*) leave "no build for $(uname -m) is pinned" ;;
esac

if [ "$(id -u)" = 0 ]; then
    sudo=
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    sudo="sudo -n"
else
    leave "this is not root"
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
url=https://registry.npmjs.org/@esbuild/$arch/-/$arch-$version.tgz
file=$folder/esbuild.tgz

fetch()
{
    if command -v curl >/dev/null; then
        curl --fail --silent --show-error --location --max-time 120 --output "$file" "$url"
    elif command -v wget >/dev/null; then
        wget --quiet --timeout=60 --tries=2 --output-document="$file" "$url"
    else
        python3 -c 'import sys, urllib.request as u; u.urlretrieve(*sys.argv[1:])' "$url" "$file"
    fi
}

echo "Installing: esbuild $version"
fetch 2>"$folder/log" || leave "$(tail -n 1 "$folder/log")"
echo "$digest  $file" | sha512sum --check --status || leave "$url is not what is pinned"
tar -xzf "$file" -C "$folder" package/bin/esbuild
# shellcheck disable=SC2086
$sudo install -m 0755 "$folder/package/bin/esbuild" $target
