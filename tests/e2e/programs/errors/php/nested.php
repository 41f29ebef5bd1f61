<?php
function a() { throw new LogicException("inner"); }
function b() {
    try { a(); } catch (LogicException $e) {
        throw new RuntimeException("outer", 0, $e);
    }
}
b();
