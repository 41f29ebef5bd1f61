<?php
$a = "abc;
echo $a;
