use strict;
eval "1 +";
warn $@ if $@;
die "the real one\n";
