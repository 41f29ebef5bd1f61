x <- as.numeric("abc")
stop("cannot go on")
