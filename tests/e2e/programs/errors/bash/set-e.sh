set -e
true
false
