<?php
function f() { return g(); }
function g() { throw new DomainException(); }
f();
