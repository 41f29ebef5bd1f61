use strict;
my $x = hello;
print $x;
