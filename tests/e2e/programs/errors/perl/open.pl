open(my $f, "<", "missing.txt") or die "Can't open: $!";
