<?php
abstract class A {}
$x = new A();
