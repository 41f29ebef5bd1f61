l <- list(a = 1)
l[[3]]
