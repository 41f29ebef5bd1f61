my $x = 1;
if ($x {
    print 1;
}
