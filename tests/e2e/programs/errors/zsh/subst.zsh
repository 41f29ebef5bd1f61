echo ${x y}
