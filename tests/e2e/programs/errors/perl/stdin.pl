while (my $l = <DATA>) {
    die "bad line" if $l =~ /x/;
}
__DATA__
a
x
