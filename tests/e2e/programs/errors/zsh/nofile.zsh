set -e
cat < missing.txt
