v <- list(1, "a", 3)
sapply(v, function(x) x * 2)
