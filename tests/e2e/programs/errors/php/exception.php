<?php
function age($n) {
    if ($n < 0) {
        throw new InvalidArgumentException("age must be positive");
    }
}
age(-1);
