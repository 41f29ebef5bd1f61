use strict;
my $h = [1];
print $h->{a};
