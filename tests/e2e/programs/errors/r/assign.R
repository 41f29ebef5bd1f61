df <- data.frame(x=1:3)
df$y <- c(1,2)
