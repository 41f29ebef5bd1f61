set -e
ls missing-folder
