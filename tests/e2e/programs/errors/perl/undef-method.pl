my $x;
$x->foo();
