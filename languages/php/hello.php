<?php
printf("Hello, %s!\n", $argv[1] ?? "world");
