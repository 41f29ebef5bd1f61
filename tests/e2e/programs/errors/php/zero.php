<?php
function d($a, $b) {
    return intdiv($a, $b);
}
d(1, 0);
