set -u
echo $nmae
