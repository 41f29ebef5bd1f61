use strict;
my $name = 1;
print $nmae;
