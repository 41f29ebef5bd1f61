f <- function(a, b) a + b
f(1, 2, 3)
