set -e
cd /nowhere
