<?php
array_combine([1, 2], [1]);
