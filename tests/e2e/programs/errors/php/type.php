<?php
function f(int $x) {
    return $x;
}
f("abc");
