use Carp;
sub inner { confess "deep"; }
sub outer { inner(1); }
outer();
