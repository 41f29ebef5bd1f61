x=0
echo $((1 / x))
