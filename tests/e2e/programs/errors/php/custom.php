<?php
namespace Shop;
class OutOfStock extends \Exception {}
function buy() {
    throw new OutOfStock("nothing in it\nat all");
}
buy();
