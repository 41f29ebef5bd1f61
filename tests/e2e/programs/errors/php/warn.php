<?php
$x = [];
echo $x["missing"];
echo $undefined;
throw new Exception("after warnings");
