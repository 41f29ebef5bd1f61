x <- read.csv("missing.csv")
