use strict;
sub f {
    die "it failed";
}
f();
