x <- c(1, 2)
mena(x)
