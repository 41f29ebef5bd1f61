die "no line here\n";
