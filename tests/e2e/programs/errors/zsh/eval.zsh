cmd='if true; then print x'
print before
eval $cmd || exit 1
