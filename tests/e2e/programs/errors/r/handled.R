try(parse(text = "1 + + )"))
x <- 1
stop("the real one")
