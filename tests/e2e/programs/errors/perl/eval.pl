eval { die "inner\n" };
print "caught $@";
die "outer";
