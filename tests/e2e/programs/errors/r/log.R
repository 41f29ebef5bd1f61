v <- "abc"
log(v)
