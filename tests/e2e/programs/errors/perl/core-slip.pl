use strict;
use List::Utill;
