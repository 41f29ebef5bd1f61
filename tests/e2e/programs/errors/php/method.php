<?php
class A { public function go() { $this->stop(); } }
(new A)->go();
