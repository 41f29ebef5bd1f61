use strict;
use warnings;
use autodie;
sub slurp {
    my $name = shift;
    open(my $fh, '<', $name);
    local $/;
    return <$fh>;
}
print slurp("notes/todo.txt");
