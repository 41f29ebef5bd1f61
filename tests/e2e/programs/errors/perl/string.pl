my $x = "abc;
print $x;
