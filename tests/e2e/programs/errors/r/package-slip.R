x <- 1
library(ggplto2)
