<?php
require "missing.php";
