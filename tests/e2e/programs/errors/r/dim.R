a <- matrix(1:4, 2)
b <- matrix(1:6, 3)
a %*% b
