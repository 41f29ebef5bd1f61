set -u
name=1
echo "$nmae"
