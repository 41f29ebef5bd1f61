use strict;
my $text = "a/b";
if ($text =~ m/a {
    print "yes\n";
}
