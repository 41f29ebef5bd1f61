my $x = 1
my $y = 2;
