use warnings;
my $u;
my $v = $u + 1;
die "after a warning";
