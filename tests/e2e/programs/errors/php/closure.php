<?php
$r = array_map(function ($x) {
    return 10 % $x;
}, [1, 0]);
