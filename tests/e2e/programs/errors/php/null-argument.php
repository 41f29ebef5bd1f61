<?php
function f(string $a) {}
f(null);
