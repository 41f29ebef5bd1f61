my $x = 1;
eval "1 +";
die $@ if $@;
