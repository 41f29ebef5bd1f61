set -e
cd /nowhere/at/all
