print -r -- "Hello, ${1:-world}!"
