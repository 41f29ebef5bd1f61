<?php
fwrite(STDERR, "bad input\n");
exit(3);
