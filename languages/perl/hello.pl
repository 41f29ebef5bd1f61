use strict;
use warnings;

my $name = shift // "world";
print "Hello, $name!\n";
