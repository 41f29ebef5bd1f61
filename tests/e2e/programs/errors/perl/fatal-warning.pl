use strict;
use warnings FATAL => 'all';

my @rows = ({ n => 2 }, { n => 1 }, { m => 3 });
my @sorted = sort {
    $a->{n} <=> $b->{n}
} @rows;
print scalar(@sorted), "\n";
