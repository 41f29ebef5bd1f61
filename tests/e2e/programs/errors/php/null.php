<?php
$x = null;
$x->foo();
