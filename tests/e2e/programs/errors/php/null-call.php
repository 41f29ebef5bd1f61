<?php
$x = null;
$x();
