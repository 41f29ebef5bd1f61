<?php
$x = 1;
undefined_fn($x);
