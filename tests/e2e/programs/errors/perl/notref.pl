use strict;
my $x = "abc";
print @$x;
