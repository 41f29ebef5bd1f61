<?php
$x = 5;
echo match($x) { 1 => "a" };
