setopt no_such_thing_here || exit 1
