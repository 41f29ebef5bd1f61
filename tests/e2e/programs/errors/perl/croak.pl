package Acct;
use Carp;
sub new { bless {}, shift }
sub take { croak "not enough" }
package main;
my $a = Acct->new;
$a->take(5);
