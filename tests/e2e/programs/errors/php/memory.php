<?php
ini_set("memory_limit", "16M");
$s = str_repeat("x", 32 << 20);
