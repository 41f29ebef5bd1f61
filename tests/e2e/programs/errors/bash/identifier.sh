set -e
export 1abc=2
