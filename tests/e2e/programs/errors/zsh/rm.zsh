set -e
rm nothing-here
