my $x = ;
my $y = 1 +;
die "never";
