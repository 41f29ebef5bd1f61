set -euo pipefail
echo x | grep y | cat
