#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# install-grammars.sh: the tree-sitter grammars that `cay check` reads code with, compiled once into
# /usr/local/lib/cay/grammars (as root) or ${XDG_CACHE_HOME:-~/.cache}/cay/grammars, so that no
# build and no test compiles them again. Sources come from the npm registry, each checked by its
# digest, at versions of ABI 14, which is what Debian's libtree-sitter reads. What can't be had (no
# network, no compiler) is left out with a note: cay then says "unknown" of such code, never "safe".
# Perl has none: the one of ABI 14 on npm (@ganezdragon/tree-sitter-perl 1.1.1) frees what it never
# had on the first here-document. CAY_NO_INSTALL=1 fetches and compiles nothing.
#
# install-grammars.sh --into FOLDER, as a script of `meson install`: the same into a folder below the
# prefix and DESTDIR, copied from the first place where they are there.
set -eu

if [ "$(id -u)" = 0 ]; then
    target=/usr/local/lib/cay/grammars
else
    target=${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/cay/grammars
fi
into=
if [ "${1:-}" = --into ]; then
    case $2 in
    /*) into=${DESTDIR:-}$2 ;;
    *) into=$MESON_INSTALL_DESTDIR_PREFIX/$2 ;;
    esac
    set --
fi

# Line: NAME PACKAGE VERSION FOLDER DIGEST. FOLDER is where src/parser.c is; the biggest come
# first, so that two at a time end together. A second line of one package is another part of it.
list()
{
    sed '/^#/d' <<'LIST'
sql @derekstride/tree-sitter-sql 0.3.11 . 611b535d558ae27effdc1506721846716fc8175bb695d4767ddd2ddd4c3bca66c65dc45f886defd53e8de378d0297cf62f037e371f806fde93d07b6eb01547f6
cpp tree-sitter-cpp 0.23.4 . a91e6a503ca16798c9e95f3fba6881c689116def3d6c21a672afdd93de3023890df3aa9f755f24d061c850429aa9681cbb8db029a97913decb2a92de556f2c2b
ruby tree-sitter-ruby 0.23.1 . 77dfd15e05a347a1da9cdef04d8852e5ba4140bcf55641f4e3c566dc2a1d3c6c895676a65cc19bf281210f2a55081ab84271ee8bdb135ee24104fdd6b42c3944
bash tree-sitter-bash 0.23.3 . dfa720fc643662621b7a205ea9eba1e1f049ea2e24815a2e0daa93c6a8a1e72b0f6a0fb31ee7f221ac4c38578cf027a997000afcbba3d68e571ea81d01fa0266
typescript tree-sitter-typescript 0.23.2 typescript 7b4e095142b14d3e77ff1dd4ab5cc82f8e43a182957c71f8099ab081984f839a9844e9799d08d5fbce6bb85cc5199c6ef9078555b4533c3467a8bf546d4e1578
rust tree-sitter-rust 0.23.3 . b8b7592752b6e84b894c1309973d65b53960ee72720184e17e8b9782281fe62c4a39ab0e2f9c0dad10a9b964ec97aac370a9592bd517f9a9e714ba8ffe4721c1
php tree-sitter-php 0.23.12 php 57090154e6a1842d8d6172bf16eaaadf4371b8bffa7368666f1105e23ac1ec0c91e6b2dcee74f6ee6cc5deaa22fa9ab1f46cb601b5e719ecc5ee1e0c78ce9844
r @eagleoutice/tree-sitter-r 1.1.2 . 1d1d11ca8239bb171fb1d66f4cca9233c189c86a3a0d04e47dd82aca043a37e0f429039b447e11c5880167a78fb06abfdfa44102abfccb435e42f0052f637875
c tree-sitter-c 0.23.6 . d1dc572b39d5c94034b3a3e336894936cdb217cecee5a2f9dfc03f791ea78c0e68a97dc2def1f8be7c7741d38ac2e51da4a11c15d1ee883a5128b2c203fb63bd
python tree-sitter-python 0.23.6 . c8833dcf4a31288c53edb02d3ce860a1597a8135e59a5221b9eee58854f8a013c5fe585aec76b8750052f3602fea130c459a159c5248f0cea62fe4b05a82c3dc
java tree-sitter-java 0.23.5 . 623bbba10d17c7b19c513d359948253cff9b61fbea8cd086771aa28139dec3d9cb1a8208e363cd54fddb1eb61e331b3088244cd32b9b5a6379aa4fb3b20d3330
javascript tree-sitter-javascript 0.23.1 . fdb9e16eb4c3f5fad46074138989cf731c87391230d79ec44416ba76acda2b1bd1ff1dcf0b863377e0f5a5920c4baccd836bf76bc059d282bb8c7aac428f5f58
go tree-sitter-go 0.23.4 . 89068712ce3231afe1328fd9086a8b7c6eb51749a28a750b5357c587e199ade091b4aca514bb6f9fbf7ca1c0998cedabfee9e0359800635b3584f17203091cef
lua @tree-sitter-grammars/tree-sitter-lua 0.2.0 . 54f93def527784150dafb0a9649be04d4e54984916f22310d1293a6ebe0edf12f4d171443b83c28d248679861a91180f00988847c279f7851c04afbb8a506fab
toml @tree-sitter-grammars/tree-sitter-toml 0.7.0 . f3bdca979d7c426e6085b59a748498e35af016379ed2ffb66d4e2dc30bc0c3654025c5b08f6bc1a3717784e0977dba876858aa738aa1e9e2e190c976619252d2
json tree-sitter-json 0.24.8 . 4dcf59658c07c966774edd55130ecf6b6b1cbb560eeff77604205b293c79857c2283751f7508ec38f90fc8ba4324e9ff9b5501116600b52746030092c9a801a9
LIST
}

fetch()
{
    if command -v curl >/dev/null; then
        curl --fail --silent --show-error --location --max-time 120 --retry 2 --output "$1" "$2"
    elif command -v wget >/dev/null; then
        wget --quiet --timeout=60 --tries=2 --output-document="$1" "$2"
    else
        python3 -c 'import sys, urllib.request as u; u.urlretrieve(sys.argv[2], sys.argv[1])' "$1" "$2"
    fi
}

# One grammar: NAME.so, its highlight queries NAME.scm, and NAME.version, written last: what has
# it is whole.
one()
{
    name=$1 package=$2 version=$3 folder=$4 digest=$5
    work=$temp/$name
    url=https://registry.npmjs.org/$package/-/${package##*/}-$version.tgz
    mkdir -p "$work"
    if ! fetch "$work/source.tgz" "$url" 2>"$work/log"; then
        echo "install-grammars: $name: $(tail -n 1 "$work/log")" >&2
        return 0
    fi
    if ! echo "$digest  $work/source.tgz" | sha512sum --check --status; then
        echo "install-grammars: $name: $url is not what is pinned" >&2
        return 0
    fi
    tar -xzf "$work/source.tgz" -C "$work"
    source=$work/package/$folder/src
    set -- "$source/parser.c"
    [ ! -e "$source/scanner.c" ] || set -- "$@" "$source/scanner.c"
    # -O1: twice as quick to compile as -O2, and the tables are what matters.
    if ! nice "${CC:-cc}" -shared -fPIC -O1 -g0 -w -Wl,-z,relro,-z,now -I"$source" \
        -o "$work/$name.so" "$@" 2>"$work/log"; then
        echo "install-grammars: $name: $(tail -n 1 "$work/log")" >&2
        return 0
    fi
    for file in "$work/package/queries/highlights.scm" "$work/package/$folder/queries/highlights.scm"; do
        [ ! -e "$file" ] || cp "$file" "$work/$name.scm"
    done
    for file in "$name.so" "$name.scm"; do
        [ ! -e "$work/$file" ] || { cp "$work/$file" "$target/.$file.$$" &&
            chmod 0644 "$target/.$file.$$" && mv "$target/.$file.$$" "$target/$file"; }
    done
    echo "$version" >"$target/$name.version"
    rm -rf "$work"
}

if [ "${1:-}" = --one ]; then
    temp=$2 target=$3
    shift 3
    one "$@"
    exit 0
fi

# What is there already, at the version that is wanted, goes below the prefix.
copy()
{
    mkdir -p "$into"
    list | while read -r name _ version _; do
        [ "$(cat "$into/$name.version" 2>/dev/null)" != "$version" ] || continue
        for from in "$target" /usr/local/lib/cay/grammars; do
            [ "$(cat "$from/$name.version" 2>/dev/null)" = "$version" ] || continue
            install -m 0644 "$from/$name.so" "$into/$name.so"
            [ ! -e "$from/$name.scm" ] || install -m 0644 "$from/$name.scm" "$into/$name.scm"
            install -m 0644 "$from/$name.version" "$into/$name.version"
            break
        done
    done
}

if [ -n "$into" ]; then
    copy
    # The rest is made where it belongs; root's usual place is no matter of an installation.
    target=$into
fi
[ "${CAY_NO_INSTALL:-0}" != 1 ] || exit 0
missing=$(list | while read -r name package version folder digest; do
    [ "$(cat "$target/$name.version" 2>/dev/null)" = "$version" ] ||
        echo "$name $package $version $folder $digest"
done)
[ -n "$missing" ] || exit 0
if ! mkdir -p "$target" 2>/dev/null; then
    echo "install-grammars: $target can't be written; cay check will say unknown" >&2
    exit 0
fi
if ! command -v "${CC:-cc}" >/dev/null; then
    echo "install-grammars: no C compiler; cay check will say unknown" >&2
    exit 0
fi
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
echo "Installing: grammars for $(echo "$missing" | wc -l) languages"
echo "$missing" | xargs -P "$(nproc)" -L 1 "$0" --one "$temp" "$target"
