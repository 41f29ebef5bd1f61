<?php
$code = 'return 1 +;';
echo "before\n";
$v = eval($code);
echo $v;
