<?php
$x = new Missing();
