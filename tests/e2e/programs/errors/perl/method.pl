package Foo;
sub new { bless {}, shift }
package main;
my $f = Foo->new;
$f->missing;
