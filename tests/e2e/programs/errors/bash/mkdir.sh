set -e
mkdir /usr/newdir
