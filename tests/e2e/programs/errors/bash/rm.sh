set -e
echo start
rm nothing-here
