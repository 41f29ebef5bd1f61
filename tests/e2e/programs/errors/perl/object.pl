package My::Error;
sub new { bless { m => $_[1] }, $_[0] }
package main;
die My::Error->new("x");
