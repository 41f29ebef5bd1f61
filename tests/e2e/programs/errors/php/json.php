<?php
json_decode("{bad", false, 512, JSON_THROW_ON_ERROR);
