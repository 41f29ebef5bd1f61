print -l *.nothing
