use strict;
eval q{$nowhere = 1; 1};
warn $@ if $@;
die "the real one\n";
