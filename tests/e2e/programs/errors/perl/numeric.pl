use warnings;
my $n = "abc";
my $m = $n + 1;
print sqrt(-$m);
