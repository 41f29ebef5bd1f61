cmd='for i in 1 2 3; do echo $i'
echo before
eval "$cmd"
