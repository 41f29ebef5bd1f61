set -e
x=abc
[ "$x" -gt 3 ]
