use strict;
use JSON::Missing;
